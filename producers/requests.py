"""Requests for a pass: before a turn, by a plugin, by a person, after a provider's error."""

from __future__ import annotations

from dataclasses import replace

from producers import late
from producers.arguments import check_wishes
from producers.measure import Size
from producers.passes import Passes, RequestedPass
from producers.results import Compaction, CompressionStuck, Status
from producers.waiting import Deadline
from storage import audit, guards
from storage.audit import AuditAction
from storage.conversations import sessions
from storage.guards import GuardName
from workers.policy.triggers import Trigger

LONG_CONTEXT_WINDOW = 200_000
"""The window in tokens of an account that may not use a longer one."""


def request_hygiene(passes: Passes, key: int, deadline: Deadline) -> Compaction:
    """Request a pass before a turn, over a session far too large or with too many messages.

    Raises `CompressionStuck` if the caller waited for a pass that left nearly all of a session that
    is still over its threshold.
    """
    with passes.database.read() as connection:
        record = sessions.fetch(connection, key)
    if _hygiene_trigger(passes.measure(record)) is None:
        return passes.without_pass(record, Status.NOT_NEEDED)
    with passes.database.write() as connection:
        record = sessions.lock(connection, key)
        trigger = _hygiene_trigger(passes.measure(record))
        if trigger is None:
            return passes.without_pass(record, Status.NOT_NEEDED)
        requested = passes.join_or_request(connection, record, trigger)
    result = passes.finish(requested, deadline)
    if result.stuck and deadline.granted and result.over_threshold:
        raise CompressionStuck(record.id, result)
    return result


def request_for_plugin(passes: Passes, key: int, deadline: Deadline) -> Compaction:
    """Request a pass for a plugin, over a session of any size, once a turn.

    Raises `CompressionStuck` if the caller waited for a pass that left nearly everything.
    """
    with passes.database.write() as connection:
        record = sessions.lock(connection, key)
        former = guards.read_all(connection, passes.database, key).get(GuardName.ENGINE_REQUEST)
        requested_already = former is not None and former.subject == record.turns
        if requested_already and passes.open_job(connection, key) is None:
            return passes.without_pass(record, Status.SPENT, Trigger.ENGINE)
        requested = passes.join_or_request(connection, record, Trigger.ENGINE)
        if isinstance(requested, RequestedPass):
            guards.put(
                connection,
                passes.database,
                key,
                GuardName.ENGINE_REQUEST,
                subject=record.turns,
            )
    return _unless_stuck(record.id, passes.finish(requested, deadline), deadline)


def request_for_person(
    passes: Passes,
    key: int,
    deadline: Deadline,
    *,
    focus: object,
    keep_last: object,
    around: object,
    up_to: object,
    actor: str,
) -> Compaction:
    """Request a pass for a person. Bypasses and ends cooldown and anti-thrash.

    Raises `RequestError`, and `CompressionStuck` if the caller waited for a pass over the whole
    session that left nearly everything.
    """
    with passes.database.write() as connection:
        record = sessions.lock(connection, key)
        scope = check_wishes(
            focus=focus,
            keep_last=keep_last,
            around=around,
            up_to=up_to,
            next_position=record.next_position,
        )
        guards.clear(connection, key, GuardName.COOLDOWN, GuardName.POOR_PASSES)
        requested = passes.join_or_request(connection, record, Trigger.MANUAL, scope.options())
        audit.record(
            connection,
            passes.database,
            AuditAction.COMPACTION_ASKED,
            actor=actor,
            owner=record.owner,
            session=record.id,
            # The topic itself is a person's text.
            facts={
                **{name: value for name, value in scope.options().items() if name != "focus"},
                "focused": bool(scope.focus),
            },
        )
    result = passes.finish(requested, deadline)
    return _unless_stuck(record.id, result, deadline) if scope.whole else result


def answer_error(passes: Passes, key: int, error: object, deadline: Deadline) -> Compaction:
    """Recognise a provider's error, store the window that it states, and request a pass.

    Raises `CompressionStuck` if the caller waited for a pass that left nearly all of a session that
    still does not fit its window.
    """
    found = late.recognise_error(error)
    if found is None:
        with passes.database.read() as connection:
            record = sessions.fetch(connection, key)
        return passes.without_pass(record, Status.NOT_RECOGNISED)
    trigger = Trigger(found.kind.value)
    long_context_refused = trigger is Trigger.LONG_CONTEXT_RATE_LIMIT
    limit = LONG_CONTEXT_WINDOW if long_context_refused else found.stated_limit
    requested: RequestedPass | Compaction
    with passes.database.write() as connection:
        record = sessions.lock(connection, key)
        if limit is not None:
            record = sessions.declare_window(connection, key, limit)
        if found.smaller_prompt_helps:
            requested = passes.join_or_request(connection, record, trigger)
        else:
            requested = passes.without_pass(record, Status.NOT_NEEDED, trigger)
    result = replace(
        passes.finish(requested, deadline), kind=found.kind, max_output=found.output_room
    )
    if result.stuck and deadline.granted and not result.fits:
        raise CompressionStuck(record.id, result)
    return result


def _hygiene_trigger(size: Size) -> Trigger | None:
    if size.over_messages:
        return Trigger.HYGIENE_COUNT
    return Trigger.HYGIENE_TOKENS if size.over_hygiene else None


def _unless_stuck(session_id: str, result: Compaction, deadline: Deadline) -> Compaction:
    if result.stuck and deadline.granted:
        raise CompressionStuck(session_id, result)
    return result
