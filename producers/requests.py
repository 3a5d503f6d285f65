"""Requests for a single pass: at the gateway's door, by a plugin, by a person (ENGINE.md §9)."""

from __future__ import annotations

from producers.arguments import check_wishes
from producers.compaction import Compaction, CompressionStuck, Status
from producers.measure import Measure, measure
from producers.passes import Asked, Passes, nothing_done
from producers.waiting import Patience
from storage import audit, guards, sessions
from storage.audit import AuditAction
from storage.guards import GuardName
from workers.triggers import Trigger


def hygiene(passes: Passes, key: int, patience: Patience) -> Compaction:
    """Rows 3 and 4: before a turn, of a session that is far too large or has too many messages.

    Raises `CompressionStuck` to a caller who waited for a pass that left nearly all of a session
    that is over its threshold still.
    """
    with passes.database.read() as connection:
        record = sessions.fetch(connection, key)
    if _at_the_door(measure(record, passes.settings)) is None:
        return nothing_done(record, Status.NOT_NEEDED)
    with passes.database.write() as connection:
        record = sessions.lock(connection, key)
        trigger = _at_the_door(measure(record, passes.settings))
        if trigger is None:
            return nothing_done(record, Status.NOT_NEEDED)
        asked = passes.join_or_ask(connection, record, trigger)
    done = passes.outcome(asked, patience)
    with passes.database.read() as connection:
        size = measure(sessions.fetch(connection, key), passes.settings)
    if done.stuck and patience.granted and size.over_threshold:
        raise CompressionStuck(record.id, size.tokens, size.threshold, done)
    return done


def engine_request(passes: Passes, key: int, patience: Patience) -> Compaction:
    """Row 10: a plugin asks, whatever the session's size; counts once a turn.

    Raises `CompressionStuck` to a caller who waited for a pass that left nearly everything.
    """
    with passes.database.write() as connection:
        record = sessions.lock(connection, key)
        former = guards.read_all(connection, passes.database, key).get(GuardName.ENGINE_REQUEST)
        asked_already = former is not None and former.subject == record.turns
        if asked_already and passes.open_job(connection, key) is None:
            return nothing_done(record, Status.SPENT, Trigger.ENGINE)
        asked = passes.join_or_ask(connection, record, Trigger.ENGINE)
        if isinstance(asked, Asked):
            guards.put(
                connection,
                passes.database,
                key,
                GuardName.ENGINE_REQUEST,
                subject=record.turns,
            )
    return _unless_stuck(passes, key, passes.outcome(asked, patience), patience)


def person_request(
    passes: Passes,
    key: int,
    patience: Patience,
    *,
    focus: object,
    keep_last: object,
    around: object,
    up_to: object,
    actor: str,
) -> Compaction:
    """Rows 11 to 14: a person asks. Bypasses and ends cooldown and anti-thrash.

    Raises `RequestError`, and `CompressionStuck` to a caller who waited for a pass over the whole
    session that left nearly everything.
    """
    with passes.database.write() as connection:
        record = sessions.lock(connection, key)
        wishes = check_wishes(
            focus=focus,
            keep_last=keep_last,
            around=around,
            up_to=up_to,
            next_position=record.next_position,
        )
        guards.clear(connection, key, GuardName.COOLDOWN, GuardName.POOR_PASSES)
        asked = passes.join_or_ask(connection, record, Trigger.MANUAL, wishes.options())
        audit.record(
            connection,
            passes.database,
            AuditAction.COMPACTION_ASKED,
            actor=actor,
            owner=record.owner,
            session=record.id,
            # The topic itself is text of a person.
            facts={
                **{name: of for name, of in wishes.options().items() if name != "focus"},
                "focused": bool(wishes.focus),
            },
        )
    done = passes.outcome(asked, patience)
    return _unless_stuck(passes, key, done, patience) if wishes.whole else done


def _at_the_door(size: Measure) -> Trigger | None:
    if size.over_messages:
        return Trigger.HYGIENE_COUNT
    return Trigger.HYGIENE_TOKENS if size.over_hygiene else None


def _unless_stuck(passes: Passes, key: int, done: Compaction, patience: Patience) -> Compaction:
    if done.stuck and patience.granted:
        with passes.database.read() as connection:
            record = sessions.fetch(connection, key)
        size = measure(record, passes.settings)
        raise CompressionStuck(record.id, size.tokens, size.threshold, done)
    return done
