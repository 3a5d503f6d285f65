"""What a batch pass of a session would do, decided in one short read of its live view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from storage import cursors, guards, messages, sessions
from storage.cursors import CursorName
from storage.guards import GuardName
from storage.rows import Row
from storage.sessions import SessionRecord
from workers.batch.budget import FEWEST_TOKENS, summary_budget, verbatim_budget
from workers.batch.outcomes import NothingToCompact
from workers.batch.span import Span, divide
from workers.batch.wishes import Wishes
from workers.compression_settings import CompressionSettings
from workers.conversation.verbatim import verbatim_section
from workers.limits import region_rules, session_threshold, session_window
from workers.regions import Regions
from workers.threshold import NoUsableWindowError, Threshold
from workers.triggers import TriggerRules
from workers.workshop import Workshop

_FEWEST_TOKENS_OF_A_MESSAGE = 5


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A pass as it is decided: what leaves the view, and what is told of it.

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
    """What a plan depends on beside the session: settings, trigger, and what a person wants."""

    settings: CompressionSettings
    rules: TriggerRules
    wishes: Wishes


def plan_batch(
    connection: Connection, key: int, given: Circumstances
) -> BatchPlan | NothingToCompact:
    """Decide the next batch pass of a session. Reads outlines of the live view once, and the text
    of the newest requests alone."""
    session = sessions.fetch(connection, key)
    settings = given.settings
    try:
        threshold = session_threshold(session, settings)
    except NoUsableWindowError as error:
        # The session's owner can mend that, the worker cannot; its turns go on being stored.
        return NothingToCompact(str(error))
    view = messages.read_outline(connection, key)
    regions, span = divide(
        view,
        region_rules(threshold, settings),
        given.rules,
        given.wishes,
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
    """The requests that the marker will stand for, newest first: those that leave with the span,
    and those archived before. So they do not wear away (ENGINE.md §6.5)."""
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


def learned_room(connection: Connection, shop: Workshop, key: int) -> int | None:
    """Characters that one request about the session may hold, once one was too long for the
    present summariser."""
    held = guards.read_all(connection, shop.database, key).get(GuardName.INPUT_ROOM)
    known = held is not None and held.count == shop.summariser.fingerprint
    return held.subject if held is not None and known else None
