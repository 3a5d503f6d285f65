"""The check before a request: whether it may be sent, or the session is compacted first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from producers.measure import Size, measure
from producers.passes import Passes, RequestedPass
from producers.results import Compaction, CompressionStuck, Status
from producers.waiting import Deadline
from storage import guards
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.guards import GuardName
from workers.policy.calibration import Calibration
from workers.policy.triggers import RULES, Trigger
from workers.settings import CompressionSettings

_NO_PROGRESS = "no progress"
_FINISHED = frozenset({Status.CHANGED, Status.UNCHANGED, Status.FAILED})


def check_request(passes: Passes, key: int, tokens: int | None, deadline: Deadline) -> Compaction:
    """Check whether the session's next request may be sent, and request passes until it may.

    `tokens` is the gateway's estimate, None for ours. Passes continue while each makes progress, at
    most `max_attempts` in one turn and until the deadline.

    Raises `CompressionStuck` if the caller waited for a pass that left nearly all of a session that
    is still over its threshold.
    """
    with passes.database.read() as connection:
        record = sessions.fetch(connection, key)
    request = _Request(passes, passes.settings, tokens, record)
    size = first = request.measure(record)
    result = passes.without_pass(record, Status.NOT_NEEDED)
    while size.over_limits:
        with passes.database.write() as connection:
            requested = request.enqueue(connection)
        step = passes.finish(requested, deadline)
        with passes.database.read() as connection:
            now = sessions.fetch(connection, key)
        size = request.measure(now)
        result = replace(result.then(step), size=size, tokens_asked=first.tokens)
        if not size.over_limits:
            break
        if step.status is Status.CHANGED and step.smaller and not step.stuck:
            continue
        if step.status in _FINISHED:
            _note_no_progress(passes, now)
        if step.stuck and deadline.granted and size.over_threshold:
            raise CompressionStuck(now.id, result)
        break
    return replace(result, size=size, tokens_asked=first.tokens)


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that the gateway wants to send.

    `tokens` is the gateway's estimate while the stored session was as in `first`, None for ours.
    """

    passes: Passes
    settings: CompressionSettings
    tokens: int | None
    first: SessionRecord

    def measure(self, now: SessionRecord) -> Size:
        """Measure the request, with the gateway's estimate corrected by the change of the view."""
        tokens = self.tokens
        if tokens is not None:
            learned = Calibration.of(now.calibration)
            tokens += learned.estimate(now.live_tokens) - learned.estimate(self.first.live_tokens)
            tokens = max(0, tokens)
        return measure(now, self.settings, tokens=tokens)

    def enqueue(self, connection: Connection) -> RequestedPass | Compaction:
        """Join a running pass, else enqueue one unless it is suppressed or this turn had enough."""
        passes, database, key = self.passes, self.passes.database, self.first.key
        record = sessions.lock(connection, key)
        # Another process may have had the session compacted meanwhile.
        trigger = _trigger(self.measure(record))
        if trigger is None:
            return passes.without_pass(record, Status.NOT_NEEDED)
        running = passes.join(connection, record, trigger)
        if running is not None:
            return running
        guard = passes.suppressed_by(connection, record, trigger)
        if guard is not None:
            return passes.without_pass(record, Status.SUPPRESSED, trigger, suppressed_by=guard)
        former = guards.read_all(connection, database, key).get(GuardName.PASSES_OF_TURN)
        of_turn = former if former is not None and former.subject == record.turns else None
        count = of_turn.count if of_turn else 0
        waiting = passes.open_job(connection, key)
        if waiting is None or waiting.priority < RULES[trigger].priority:
            if count >= self.settings.max_attempts or (of_turn and of_turn.detail == _NO_PROGRESS):
                return passes.without_pass(record, Status.SPENT, trigger)
            count += 1
        guards.put(
            connection,
            database,
            key,
            GuardName.PASSES_OF_TURN,
            count=count,
            subject=record.turns,
        )
        return passes.request(connection, record, trigger)


def _trigger(size: Size) -> Trigger | None:
    if size.over_messages:
        return Trigger.HYGIENE_COUNT
    return Trigger.PREFLIGHT if size.over_threshold else None


def _note_no_progress(passes: Passes, record: SessionRecord) -> None:
    """Prevent further passes in this turn, which would end like the last one."""
    with passes.database.write() as connection:
        sessions.lock(connection, record.key)
        known = guards.read_all(connection, passes.database, record.key)
        former = known.get(GuardName.PASSES_OF_TURN)
        if former is not None and former.subject == record.turns:
            guards.put(
                connection,
                passes.database,
                record.key,
                GuardName.PASSES_OF_TURN,
                count=former.count,
                subject=former.subject,
                detail=_NO_PROGRESS,
            )
