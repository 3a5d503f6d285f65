"""Plan a batch pass of a session in one short read of its live view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from storage import guards
from storage.conversations import cursors, messages, sessions, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.rows import Row
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind
from storage.guards import GuardName
from workers.batch.span import CompactionOptions, Span, divide
from workers.conversation.regions import Regions
from workers.conversation.tokens import estimate_text
from workers.conversation.verbatim import verbatim_section
from workers.policy.threshold import (
    NoUsableWindowError,
    Threshold,
    region_rules,
    session_threshold,
    session_window,
)
from workers.policy.triggers import TriggerRules
from workers.runtime.context import WorkerContext
from workers.settings import CompressionSettings
from workers.summariser.headings import as_progress

LEAST_TOKENS = 2_000
MOST_TOKENS = 10_000
SHARE_OF_MIDDLE = 0.20
SHARE_OF_WINDOW = 0.05
VERBATIM_SHARE = 6
"""The verbatim part takes at most a sixth of the middle."""

FEWEST_TOKENS = 400
"""A smaller middle is not summarised: frame and headings alone would take a third of it."""

_FEWEST_TOKENS_OF_A_MESSAGE = 5


@dataclass(frozen=True, slots=True)
class NothingToCompact:
    """An empty or too small middle; `reason` says which, in words for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A planned pass: the span that leaves the view, and the size of what replaces it.

    The rows are outlines; `verbatim` are the covered user messages word for word. Token counts
    are estimates.
    """

    session: SessionRecord
    threshold: Threshold
    view: tuple[Row, ...]
    regions: Regions
    span: Span
    verbatim: str
    target_tokens: int
    cursor_before: int


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a plan depends on besides the session: settings, trigger, and a person's options."""

    settings: CompressionSettings
    rules: TriggerRules
    options: CompactionOptions


def plan_batch(
    connection: Connection, key: int, given: Circumstances
) -> BatchPlan | NothingToCompact:
    """Plan the next batch pass of a session. Reads outlines of the live view once, and text of the
    newest requests only."""
    session = sessions.fetch(connection, key)
    settings = given.settings
    try:
        threshold = session_threshold(session, settings)
    except NoUsableWindowError as error:
        # Only the session's owner can fix that; its turns are stored all the same.
        return NothingToCompact(str(error))
    view = messages.read_outline(connection, key)
    regions, span = divide(
        view,
        region_rules(threshold, settings),
        given.rules,
        given.options,
        turn_open=session.turn_open,
    )
    if not span.messages:
        return NothingToCompact("the middle is empty")
    if span.tokens < FEWEST_TOKENS:
        return NothingToCompact(f"the middle holds {span.tokens} tokens, too few for a summary")
    budget = verbatim_budget(span.tokens, settings.verbatim_user_tokens)
    return BatchPlan(
        session=session,
        threshold=threshold,
        view=tuple(view),
        regions=regions,
        span=span,
        verbatim=verbatim_section(
            _covered_requests(connection, view, span, key, budget), budget_tokens=budget
        ),
        target_tokens=summary_budget(span.tokens, session_window(session)),
        cursor_before=cursors.read(connection, key, CursorName.MICRO),
    )


def _covered_requests(
    connection: Connection, view: Sequence[Row], span: Span, key: int, budget_tokens: int
) -> Iterator[Row]:
    """Read the requests that the marker will cover, newest first: those of the span, and those
    archived before, so that repeated passes do not lose them."""
    if budget_tokens <= 0:
        return iter(())
    leaving = {row.position for row in span.messages}
    staying = {row.position for row in view if row.opens_turn} - leaving
    found = messages.read_requests(
        connection,
        key,
        up_to=span.place,
        limit=len(staying) + budget_tokens // _FEWEST_TOKENS_OF_A_MESSAGE + 1,
    )
    return (row for row in found if row.position not in staying)


def learned_room(connection: Connection, context: WorkerContext, key: int) -> int | None:
    """Return the most characters for a request about the session, learned when one was too long for
    the current summariser; None if none was."""
    guard = guards.read_all(connection, context.database, key).get(GuardName.INPUT_ROOM)
    known = guard is not None and guard.count == context.summariser.fingerprint
    return guard.subject if guard is not None and known else None


def summary_budget(middle_tokens: int, window: int) -> int:
    """Return the summary's size that the prompt asks for, in tokens; at most half the middle."""
    share = int(middle_tokens * SHARE_OF_MIDDLE)
    wanted = max(LEAST_TOKENS, min(share, MOST_TOKENS, int(window * SHARE_OF_WINDOW)))
    return max(1, min(wanted, middle_tokens // 2))


def verbatim_budget(middle_tokens: int, setting: int) -> int:
    """Return the most tokens for covered user messages word for word."""
    return min(setting, middle_tokens // VERBATIM_SHARE)


@dataclass(frozen=True, slots=True)
class Material:
    """The input of a summary: original message rows in view order, and the text of the good
    summaries before them."""

    rows: tuple[Row, ...]
    previous: str

    @property
    def tokens(self) -> int:
        """Tokens of the rows and of the summaries before them."""
        return sum(row.tokens for row in self.rows) + estimate_text(self.previous)


def material_of(connection: Connection, key: int, span: Span) -> Material:
    """Read the material of a span of the live view."""
    taken = {row.position for row in span.messages}
    rows = messages.read_between(
        connection, key, first=span.messages[0].position, last=span.messages[-1].position
    )
    markers = messages.read_markers(connection, key) if span.markers else []
    return opened(connection, key, [*markers, *(row for row in rows if row.position in taken)])


def opened(connection: Connection, key: int, rows: Iterable[Row]) -> Material:
    """Open the placeholders among `rows` down to their originals; keep every other summary."""
    found: list[Row] = []
    previous: list[str] = []
    waiting = list(rows)[::-1]
    while waiting:
        row = waiting.pop()
        if row.summary_id is None:
            found.append(row)
        elif summaries.fetch(connection, row.summary_id).kind is SummaryKind.PLACEHOLDER:
            waiting.extend(messages.read_absorbed(connection, key, row.summary_id)[::-1])
        else:
            # A rolling summary has no sections; after a batch summary it is further progress.
            previous.append(as_progress(row.summary or ""))
    found.sort(key=lambda row: row.position)
    return Material(tuple(found), "\n\n".join(filter(None, previous)))
