"""The figures of a demo, and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from afterturn.demo.flatness import Flatness, judge_flatness
from afterturn.demo.measures import Percentiles, TurnMeasure
from afterturn.demo.transcript import Transcript
from afterturn.demo.verify import Findings


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
