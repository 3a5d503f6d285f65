"""The transactions that end a pass of any kind: all of its writes, or none.

Every one takes the session's row, makes sure of the fence and of the revision that the plan was
made on, and records the attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from storage import attempts, audit, cursors, jobs, sessions
from storage.attempts import AttemptRecord
from storage.audit import AuditAction
from storage.cursors import CursorName
from storage.jobs import Claim
from storage.sessions import SessionRecord
from workers.limits import session_threshold
from workers.telemetry import tracing
from workers.threshold import NoUsableWindowError
from workers.workshop import Workshop


class StaleError(Exception):
    """The plan does not fit the session any more. Its transaction is rolled back."""


@contextmanager
def closing(
    shop: Workshop, claim: Claim, *, revision: int | None
) -> Iterator[tuple[Connection, SessionRecord]]:
    """A transaction of the job's holder over its session, which is at `revision` if given.

    Raises `FenceLost`, and `StaleError` where the session has changed.
    """
    with tracing.span("commit"), shop.database.write() as connection:
        session = sessions.lock(connection, claim.session_key)
        jobs.check_fence(connection, claim)
        if revision is not None and session.revision != revision:
            raise StaleError
        yield connection, session
        shop.reach("before-commit")


def note(shop: Workshop, connection: Connection, claim: Claim, outcome: str, **facts: Any) -> None:
    """Record a try that changed nothing, such as `nothing_due` or `stale`."""
    session = sessions.fetch(connection, claim.session_key)
    try:
        threshold = session_threshold(session, shop.settings.current().compression).tokens
    except NoUsableWindowError:
        threshold = 0
    record(
        shop,
        connection,
        claim,
        outcome=outcome,
        before=session,
        after=session,
        threshold_tokens=threshold,
        cursor=cursors.read(connection, claim.session_key, CursorName.MICRO),
        **facts,
    )


def record(
    shop: Workshop,
    connection: Connection,
    claim: Claim,
    *,
    outcome: str,
    before: SessionRecord,
    after: SessionRecord,
    **figures: Any,
) -> None:
    """Record a try with the figures of the view before and after it."""
    attempts.record(
        connection,
        shop.database,
        claim.session_key,
        AttemptRecord(
            job_id=claim.job_id,
            kind=claim.kind,
            trigger=claim.trigger,
            outcome=outcome,
            messages_before=before.live_messages,
            messages_after=after.live_messages,
            tokens_before=before.live_tokens,
            tokens_after=after.live_tokens,
            passes=after.passes,
            tokens_saved=after.tokens_saved,
            **figures,
        ),
    )
    _note_change(
        shop, connection, claim, outcome=outcome, before=before, after=after, figures=figures
    )


_CHANGES: Mapping[str, AuditAction] = MappingProxyType(
    {
        "absorbed": AuditAction.MICRO_COMPACTED,
        "defrag": AuditAction.MICRO_COMPACTED,
        "compacted": AuditAction.COMPACTED,
        "healed": AuditAction.COMPACTED,
        "placeholder": AuditAction.COMPACTED,
        "pruned": AuditAction.PRUNED,
        "pruned_enough": AuditAction.PRUNED,
        "reset": AuditAction.RESET,
    }
)
"""Outcomes that changed the live view."""


def _note_change(
    shop: Workshop,
    connection: Connection,
    claim: Claim,
    *,
    outcome: str,
    before: SessionRecord,
    after: SessionRecord,
    figures: Mapping[str, Any],
) -> None:
    """Note in the audit trail that the view was changed, by whom and why."""
    action = _CHANGES.get(outcome)
    if action is None:
        return
    audit.record(
        connection,
        shop.database,
        action,
        actor=shop.actor,
        owner=after.owner,
        session=after.id,
        facts={
            "outcome": outcome,
            "trigger": claim.trigger,
            "tokens_before": before.live_tokens,
            "tokens_after": after.live_tokens,
            "summary": figures.get("summary_id"),
            "model": figures.get("model", ""),
        },
    )
