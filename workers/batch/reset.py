"""The last step of the failure policy: reset a session that nothing else can make smaller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from storage import guards
from storage.conversations import cursors, messages, sessions, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.rows import Row
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind, SummaryRecord
from storage.guards import GuardName
from storage.outcomes import Outcome
from storage.signals import SignalKind
from workers.batch.compaction import LOCAL, Substitute, end_of_job, smallest, substitute
from workers.batch.plan import NothingToCompact
from workers.batch.span import Span
from workers.conversation.regions import RegionRules, head_end
from workers.conversation.transcript import is_system, tool_groups
from workers.policy.threshold import NoUsableWindowError, region_rules, session_threshold
from workers.runtime.commit import Change, Transaction, view_facts
from workers.runtime.pass_context import PassResult
from workers.settings import CompressionSettings

RESET_SENTENCE = (
    "This conversation had outgrown the model and could not be summarised, so only its beginning, "
    "its last good summary and its newest turn are still shown to the model. Everything else "
    "stays searchable, and the reset can be undone."
)

NO_SUMMARY = (
    "Earlier messages of this conversation were set aside without a summary, because none could "
    "be had. They are kept and can be searched."
)


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The span to archive, and the last good summary that a marker shows in its place."""

    session: SessionRecord
    span: Span
    new: Substitute
    cursor_before: int


def plan_reset(
    connection: Connection, key: int, settings: CompressionSettings
) -> ResetPlan | NothingToCompact:
    """Plan a reset: head, first request, last good summary, newest request, final answer and open
    groups stay.

    Later system messages stay too, as in every compaction.
    """
    session = sessions.fetch(connection, key)
    try:
        rules = region_rules(session_threshold(session, settings), settings)
    except NoUsableWindowError as error:
        return NothingToCompact(str(error))
    view = messages.read_view(connection, key)
    span = Span.of(view, leaving(view, rules))
    if not span.messages:
        return NothingToCompact("nothing but head and newest turn is left")
    good = [record for row in span.markers for record in _last_good(connection, row)]
    new = _smaller(good, span.tokens)
    if new is None:
        return NothingToCompact("a reset would not make the view smaller")
    return ResetPlan(
        session=session,
        span=span,
        new=new,
        cursor_before=cursors.read(connection, key, CursorName.MICRO),
    )


def leaving(view: Sequence[Row], rules: RegionRules) -> set[int]:
    """Return the indexes of a whole live view that a reset archives, markers included."""
    head = head_end(view, rules)
    groups = tool_groups(view)
    requests = [i for i, row in enumerate(view) if row.opens_turn]
    newest = requests[-1] if requests else len(view)
    answer = [
        i for i, row in enumerate(view) if i > newest and row.role == "assistant" and not row.calls
    ]
    waiting = {i for group in groups if group.unanswered for i in group.members}
    # The first request may lie outside the head: an agent may have greeted first.
    stays = {*requests[:1], *requests[-1:], *answer[-1:], *waiting, *range(head)}
    stays.update(i for i, row in enumerate(view) if is_system(row))
    for group in (*groups, *reversed(groups), *groups):
        # A model cannot be shown a part of a group.
        if not stays.isdisjoint(group.members):
            stays.update(group.members)
    return set(range(len(view))) - stays


def reset(tx: Transaction, plan: ResetPlan) -> Change:
    """Archive the planned span and clear all guards. Can be undone like any compaction."""
    summary_id, after = substitute(tx, plan.span, plan.new, cursor_before=plan.cursor_before)
    guards.clear(tx.connection, tx.key, *GuardName)
    facts = {"sentence": RESET_SENTENCE, **view_facts(tx.before, after)}
    return Change(
        PassResult.of_change(Outcome.RESET, tx.before, after, rows=len(plan.span.messages)),
        end_of_job(tx),
        after,
        {"absorbed_tokens": plan.span.tokens, "summary_id": summary_id},
        ((SignalKind.RESET, facts),),
    )


def _smaller(good: Sequence[SummaryRecord], replaced_tokens: int) -> Substitute | None:
    """Return the last good summaries, or a fixed sentence if they are larger than all that leaves,
    as they may be behind a placeholder; None if that is larger too."""
    verbatim = next((record.verbatim for record in good if record.verbatim), "")
    text_of_good = "\n\n".join(record.text for record in good)
    for text in filter(None, (text_of_good, NO_SUMMARY)):
        new = smallest(SummaryKind.RESET, text, verbatim, LOCAL, replaced_tokens)
        if new.tokens < replaced_tokens:
            return new
    return None


def _last_good(connection: Connection, marker: Row) -> Iterable[SummaryRecord]:
    """Yield the newest version behind a marker that is not a placeholder."""
    summary_id = marker.summary_id
    while summary_id is not None:
        record = summaries.fetch(connection, summary_id)
        if record.kind is not SummaryKind.PLACEHOLDER:
            yield record
            return
        summary_id = record.replaces
