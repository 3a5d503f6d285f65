"""The look before a request: go, or compact first (ENGINE.md §9, row 2)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from producers.compaction import Compaction, CompressionStuck, Status
from producers.measure import Measure, measure
from producers.passes import Asked, Passes, nothing_done
from producers.waiting import Patience
from storage import guards, sessions
from storage.guards import GuardName
from storage.sessions import SessionRecord
from workers.calibration import Calibration
from workers.compression_settings import CompressionSettings
from workers.holds import Hold
from workers.triggers import RULES, Trigger

_NO_PROGRESS = "no progress"
_ENDED = frozenset({Status.CHANGED, Status.UNCHANGED, Status.FAILED})


@dataclass(frozen=True, slots=True)
class Preflight:
    """Whether a request may be sent.

    `go` is True below the limits, and also above them while the request fits the window and no
    pass is to be waited for: a guard holds back, the job waits for longer, or no pass makes the
    session smaller. It is False while a pass is due now or runs (compact first: ask again and
    wait), and where the request does not fit the window, since the provider would only refuse it.

    `tokens_before` is the size of the request as it was asked about, `tokens` what it is now that
    the stored view has changed; `threshold` (None where the window leaves no room) and `window`
    are what they are compared with. `compaction` tells what was done.
    """

    go: bool
    tokens: int
    tokens_before: int
    threshold: int | None
    window: int
    compaction: Compaction

    @property
    def over_threshold(self) -> bool:
        return self.threshold is not None and self.tokens >= self.threshold

    @property
    def fits(self) -> bool:
        """Whether the provider may be expected to take the request as it is."""
        return self.tokens <= self.window

    @property
    def pending(self) -> bool:
        """Whether a pass is still to come, sooner or later."""
        return self.compaction.pending

    @property
    def passes(self) -> int:
        return self.compaction.passes

    @property
    def changed(self) -> bool:
        return self.compaction.changed

    @property
    def held_by(self) -> Hold | None:
        return self.compaction.held_by

    @property
    def reason(self) -> str:
        """What was done or why not, in words for a log."""
        return self.compaction.reason


def look(passes: Passes, key: int, tokens: int | None, patience: Patience) -> Preflight:
    """Look whether the session's next request may be sent, and have passes made until it may.

    `tokens` is the gateway's estimate, None for ours. Passes go on while each makes progress, at
    most `max_attempts` of one turn and as long as the patience lasts.

    Raises `CompressionStuck` to a caller who waited for a pass that left nearly all of a session
    that is over its threshold still.
    """
    with passes.database.read() as connection:
        record = now = sessions.fetch(connection, key)
    request = _Request(passes, passes.settings, tokens, record)
    size = first = request.measure(record)
    done = nothing_done(record, Status.NOT_NEEDED)
    while _trigger(size) is not None:
        with passes.database.write() as connection:
            asked = request.ask(connection)
        step = passes.outcome(asked, patience)
        done = done.then(step)
        with passes.database.read() as connection:
            now = sessions.fetch(connection, key)
        size = request.measure(now)
        if _trigger(size) is None:
            break
        if step.status is Status.CHANGED and step.smaller and not step.stuck:
            continue
        if step.status in _ENDED:
            _note_no_progress(passes, now)
        if step.stuck and patience.granted and size.over_threshold:
            raise CompressionStuck(now.id, size.tokens, size.threshold, done)
        break
    return Preflight(
        go=_trigger(size) is None or (done.status is not Status.PENDING and size.fits),
        tokens=size.tokens,
        tokens_before=first.tokens,
        threshold=size.threshold,
        window=size.window,
        compaction=done,
    )


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that is to be sent, of `tokens` by the gateway's estimate of it when the stored
    session was as in `first`; None for ours."""

    passes: Passes
    settings: CompressionSettings
    tokens: int | None
    first: SessionRecord

    def measure(self, now: SessionRecord) -> Measure:
        """Its size and limits, the gateway's estimate corrected by what the view changed."""
        tokens = self.tokens
        if tokens is not None:
            learned = Calibration.of(now.calibration)
            tokens += learned.estimate(now.live_tokens) - learned.estimate(self.first.live_tokens)
            tokens = max(0, tokens)
        return measure(now, self.settings, tokens=tokens)

    def ask(self, connection: Connection) -> Asked | Compaction:
        """Wait for a pass that runs, else ask for one if nothing holds it back and this turn may
        have more."""
        passes, database, key = self.passes, self.passes.database, self.first.key
        record = sessions.lock(connection, key)
        # Others may have asked meanwhile, and have what they asked for.
        trigger = _trigger(self.measure(record))
        if trigger is None:
            return nothing_done(record, Status.NOT_NEEDED)
        running = passes.join(connection, record, trigger)
        if running is not None:
            return running
        hold = passes.hold(connection, record, trigger)
        if hold is not None:
            return nothing_done(record, Status.HELD_BACK, trigger, held_by=hold)
        former = guards.read_all(connection, database, key).get(GuardName.PASSES_OF_TURN)
        of_turn = former if former is not None and former.subject == record.turns else None
        count = of_turn.count if of_turn else 0
        waiting = passes.open_job(connection, key)
        if waiting is None or waiting.strength < RULES[trigger].strength:
            if count >= self.settings.max_attempts or (of_turn and of_turn.detail == _NO_PROGRESS):
                return nothing_done(record, Status.SPENT, trigger)
            count += 1
        guards.put(
            connection,
            database,
            key,
            GuardName.PASSES_OF_TURN,
            count=count,
            subject=record.turns,
        )
        return passes.ask(connection, record, trigger)


def _trigger(size: Measure) -> Trigger | None:
    if size.over_messages:
        return Trigger.HYGIENE_COUNT
    return Trigger.PREFLIGHT if size.over_threshold else None


def _note_no_progress(passes: Passes, record: SessionRecord) -> None:
    """Let no further pass be asked for in this turn (faults F135)."""
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
