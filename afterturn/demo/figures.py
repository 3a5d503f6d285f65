"""The verdict of a demo: what the database holds, whether memory stays flat, and all figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from afterturn.demo.play import Percentiles, TurnMeasure, is_request
from afterturn.demo.transcript import Transcript
from producers.gateway import Gateway
from producers.session import Session
from storage import messages, sessions
from storage.engine import Database
from storage.rows import Kind


@dataclass(frozen=True, slots=True)
class Findings:
    """Result of the comparison, in messages; `altered_messages` are stored ones that nobody sent.

    `in_order` says that the stored messages, live and archived, are those of the conversation in
    its order. `counted_tokens` is the live view added up row by row, beside the session's own
    counter `live_tokens`.
    """

    lost_messages: int
    duplicate_messages: int
    altered_messages: int
    in_order: bool
    user_messages: int
    user_messages_verbatim: bool
    live_markers: int
    live_messages: int
    archived_messages: int
    live_tokens: int
    counted_tokens: int
    passes: int
    tokens_saved: int


def verify(
    database: Database, gateway: Gateway, session: Session, sent: Sequence[dict[str, Any]]
) -> Findings:
    """Read everything back and compare it byte for byte with what was `sent`.

    Users' messages are searched in the context as a model would get it.
    """
    with database.read() as connection:
        record = sessions.fetch(connection, session.key)
        view = messages.read_view(connection, session.key)
        stored = [
            row
            for row in messages.read_everything(connection, session.key)
            if row.kind is Kind.MESSAGE
        ]
    context = gateway.load_context(session)
    originals = [_bytes(message) for message in sent]
    found = [_bytes(row.message) for row in stored]
    missing, surplus = Counter(originals) - Counter(found), Counter(found) - Counter(originals)
    known = set(originals)
    requests = [_bytes(message) for message in sent if is_request(message)]
    live = [row for row in view if row.kind is Kind.MESSAGE]
    return Findings(
        lost_messages=missing.total(),
        duplicate_messages=sum(times for text, times in surplus.items() if text in known),
        altered_messages=sum(times for text, times in surplus.items() if text not in known),
        in_order=found == originals,
        user_messages=len(requests),
        user_messages_verbatim=_is_within(requests, map(_bytes, context.messages)),
        live_markers=len(view) - len(live),
        live_messages=len(live),
        archived_messages=len(stored) - len(live),
        live_tokens=record.live_tokens,
        counted_tokens=sum(row.tokens for row in view),
        passes=record.passes,
        tokens_saved=record.tokens_saved,
    )


def _bytes(message: Any) -> str:
    """Return the message as JSON text, which tells apart even another order of keys."""
    return json.dumps(message, ensure_ascii=False)


def _is_within(wanted: Sequence[str], texts: Iterable[str]) -> bool:
    """Return whether all of `wanted` occur among `texts` in their order."""
    rest: Iterator[str] = iter(texts)
    return all(any(text == candidate for candidate in rest) for text in wanted)


MOST_GROWTH = 0.03
"""Growth over the last third that still counts as flat, as a share of the threshold. A tail of
whole tool groups and a summary that is rewritten now and then go up and down by about that."""


FEWEST_TURNS = 6
"""Turns of a play that is judged: with fewer, the last third is a single turn or none."""


@dataclass(frozen=True, slots=True)
class Flatness:
    """Growth of the live view over the last third of the turns, in shares of the threshold.

    `growth` is all of it, `unmanaged` what it would have been without compaction, `kept` what the
    user's own messages account for. `flat` is None where it cannot be judged.
    """

    growth: float
    unmanaged: float
    kept: float
    flat: bool | None

    @property
    def beyond_kept(self) -> float:
        """Growth that the user's own messages do not account for."""
        return self.growth - self.kept


def judge_flatness(
    live: Sequence[int],
    unmanaged: Sequence[int],
    kept: Sequence[int],
    *,
    threshold: int,
    passes_before: int,
) -> Flatness:
    """Judge the last third of `live`, tokens of the live view after each turn.

    Growth is that of the line of least squares through those turns: first and last value alone
    would depend on where in its up and down the view just is. Users' messages stay word for word
    in the live view, so it cannot be flatter than they let it be: what they add by
    the same measure (`kept`: tokens of all user messages so far) is taken off before judging.
    The view is flat when the rest is at most `MOST_GROWTH`.

    Not judged (`flat` None) when there are fewer than `FEWEST_TURNS`, and when compaction
    has not begun before the last third (`passes_before`): until the conversation outgrows head
    and tail, nothing may be absorbed.
    """
    last = slice(len(live) - len(live) // 3, None)
    growth, without, users = (rise(line[last]) / threshold for line in (live, unmanaged, kept))
    long_enough = passes_before > 0 and len(live) >= FEWEST_TURNS
    flat = growth - users <= MOST_GROWTH if long_enough else None
    return Flatness(growth, without, users, flat)


def rise(values: Sequence[float]) -> float:
    """Return by how much the line of least squares through `values` rises from first to last."""
    n = len(values)
    if n < 2:
        return 0.0
    middle, mean = (n - 1) / 2, sum(values) / n
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / sum(
        (i - middle) ** 2 for i in range(n)
    )
    return slope * (n - 1)


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that a demo has measured, counted or found. Times in milliseconds or seconds,
    tokens are estimates, occupancy is a share of `threshold`."""

    transcript: Transcript
    session_id: str
    turns: int
    messages: int
    window: int
    threshold: int
    summariser: str
    seconds: float
    open_jobs: int
    measures: tuple[TurnMeasure, ...]
    findings: Findings
    finalize: Percentiles
    flatness: Flatness

    @property
    def tokens_unmanaged(self) -> int:
        return self.measures[-1].unmanaged_tokens

    @property
    def occupancy_max(self) -> float:
        return max(measure.peak_tokens for measure in self.measures) / self.threshold

    @property
    def batch_passes_needed(self) -> int:
        """Turns after which the view was at the threshold, which is when a batch pass is due."""
        return sum(measure.peak_tokens >= self.threshold for measure in self.measures)

    @property
    def unmanaged_over_at(self) -> int | None:
        """The turn after which the view would have been at the threshold without compaction."""
        over = (m.turn for m in self.measures if m.unmanaged_tokens >= self.threshold)
        return next(over, None)

    @property
    def checks(self) -> dict[str, bool]:
        """What must hold, by name. Flatness is among them where it can be judged."""
        found = self.findings
        checks = {
            "nothing_lost": found.lost_messages == 0,
            "nothing_twice": found.duplicate_messages == 0,
            "nothing_altered": found.altered_messages == 0 and found.in_order,
            "user_messages_verbatim": found.user_messages_verbatim,
            "at_most_one_marker": found.live_markers <= 1,
            "counters_right": found.live_tokens == found.counted_tokens,
            "no_batch_pass_needed": self.batch_passes_needed == 0,
            "no_job_left": self.open_jobs == 0,
        }
        if self.flatness.flat is not None:
            checks["occupancy_flat"] = self.flatness.flat
        return checks

    @property
    def good(self) -> bool:
        return all(self.checks.values())

    def document(self) -> dict[str, Any]:
        """The figures as one JSON object."""
        found, flatness = self.findings, self.flatness
        return {
            "verdict": "pass" if self.good else "fail",
            "checks": self.checks,
            "transcript": self.transcript.id,
            "source": self.transcript.source,
            "session": self.session_id,
            "summariser": self.summariser,
            "turns": self.turns,
            "messages": self.messages,
            "passes": found.passes,
            "context_window": self.window,
            "threshold": self.threshold,
            "tokens_unmanaged": self.tokens_unmanaged,
            "tokens_live": found.live_tokens,
            "tokens_live_counted": found.counted_tokens,
            "tokens_saved": found.tokens_saved,
            "occupancy_max": self.occupancy_max,
            "occupancy_last": found.live_tokens / self.threshold,
            "occupancy_unmanaged": self.tokens_unmanaged / self.threshold,
            "occupancy_last_third": {**asdict(flatness), "beyond_kept": flatness.beyond_kept},
            "unmanaged_at_threshold_after_turn": self.unmanaged_over_at,
            "batch_passes_needed": self.batch_passes_needed,
            "user_messages": found.user_messages,
            "user_messages_verbatim": found.user_messages_verbatim,
            "lost_messages": found.lost_messages,
            "duplicate_messages": found.duplicate_messages,
            "altered_messages": found.altered_messages,
            "live_messages": found.live_messages,
            "archived_messages": found.archived_messages,
            "live_markers": found.live_markers,
            "open_jobs": self.open_jobs,
            "finalize_ms_p50": self.finalize.p50,
            "finalize_ms_p99": self.finalize.p99,
            "finalize_ms_max": self.finalize.worst,
            "seconds": self.seconds,
        }


def flatness_of(measures: Sequence[TurnMeasure], threshold: int) -> Flatness:
    """Judge the last third of a play."""
    before = measures[: len(measures) - len(measures) // 3]
    return judge_flatness(
        [measure.live_tokens for measure in measures],
        [measure.unmanaged_tokens for measure in measures],
        [measure.kept_tokens for measure in measures],
        threshold=threshold,
        passes_before=before[-1].passes if before else 0,
    )
