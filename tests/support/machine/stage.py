"""Everything that may happen to two owners' sessions: gateways, workers, operators, time.

The machine of `test_batch_machine` plays on it by chance, its regressions by hand. Each act is
judged on the spot, and so is every transaction of a worker, whatever it was in the middle of.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from storage import guards, jobs
from storage.conversations import sessions
from storage.conversations.summaries import SummaryKind
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import MAX_CRASHES, JobKind, JobState, job_records
from storage.jobs.job_records import JobRecord
from tests.support.machine.invariants import check_jobs, check_texts, check_words
from tests.support.machine.state import State
from tests.support.machine.summariser import (
    LARGE_ROOM,
    Answer,
    Killed,
    ScriptedSummariser,
    UnforeseenError,
)
from tests.support.machine.talks import OVERFLOW, Talks
from tests.support.machine.turns import Shape
from tests.support.machine.world import Dial, World
from tests.support.sessions.gateways import emptied, url_of
from tests.support.sessions.unabsorbed import ruled_out
from workers.policy.triggers import Trigger, rules_of
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work
from workers.summariser.contract import SummaryRequest
from workers.summariser.endpoints import chain_fingerprint
from workers.summariser.prompts import chat_messages
from workers.turn.due import MICRO_RULES

AFTER_LEASE_MS = 61_000
MOST_JOBS = 300
"""Jobs after which something that never rests is no backlog any more."""

_COMMITTED = frozenset({"after-commit", "gave-up", "fell-back"})


class Event(StrEnum):
    """What may happen while a job is worked on."""

    DIES = "the process dies"
    FAILS = "an unforeseen error"
    APPENDS = "a message arrives"
    SAYS = "a turn ends"
    UNDOES = "the user undoes"
    REWINDS = "the user rewinds"
    NEW_MODEL = "the model is changed"
    COMPACTS = "the user asks for compaction"
    OVERFLOWS = "the provider refuses the request"
    LEASE_ENDS = "another worker takes the job over"


@dataclass(slots=True)
class Incident:
    """Something that happens at the `after`-th next time that a job reaches `point`."""

    point: str
    event: Event
    after: int = 0


@dataclass(slots=True)
class _Work:
    """A job that is being worked on: as it was before, the failed requests before, and whether
    something came in between."""

    job: JobRecord
    failed_requests: int
    disturbed: bool = False

    @property
    def key(self) -> int:
        return self.job.session_key

    def is_held(self, now: State) -> bool:
        """Return whether the job is still this worker's: each claim has a fence of its own."""
        running = now.running
        claimed = (self.job.id, self.job.fence + 1)
        return running is not None and (running.id, running.fence) == claimed


class Stage(Talks):
    """Two owners' sessions, the worker of their jobs, and the summariser that it asks."""

    def __init__(
        self, database: Database, *, window: int | None = None, **compression: Any
    ) -> None:
        emptied(database)
        self.dial = Dial(url_of(database), **compression)
        self.summariser = ScriptedSummariser(self._fingerprint, self._asked)
        self.crashes: Counter[int] = Counter()
        self._incident: Incident | None = None
        self._working: list[_Work] = []
        self._before: State | None = None
        self._log = _Log()
        super().__init__(
            World(database, self.dial, self.summariser, self._failpoint), window=window
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._log.close()
        self.world.close()

    # Operators, and time.

    def configure(self, **compression: Any) -> None:
        self.dial.turn(**compression)
        self.world.follow_settings()

    def change_summariser(self, name: str) -> None:
        self.dial.name_model(name)
        self.world.follow_settings()

    def clear_guards(self, who: int, *names: GuardName) -> None:
        with self.world.database.write() as connection:
            guards.clear(connection, self.key(who), *names)

    def restart(self) -> None:
        """Everything starts anew, and every prompt is the same byte for byte."""
        before = self.prompts()
        self.world.start()
        assert self.prompts() == before

    def pass_by(self, ms: int) -> None:
        self.world.clock.ahead_ms += ms

    def end_leases(self) -> None:
        """Make due again what silent workers had leased."""
        self.pass_by(AFTER_LEASE_MS)
        self.rescue()

    def rescue(self) -> None:
        with self.world.database.write() as connection:
            jobs.rescue_expired(connection, self.world.database)

    def wait_for_next(self) -> bool:
        """Let time pass until a job is due; False where none is open."""
        waiting = [job.run_at for job in self.open_jobs() if job.state is JobState.DUE]
        if waiting:
            ms = min(waiting) - self.world.now()
            # In whole steps, so that few different times occur.
            self.pass_by(max(0, -(-ms // 10_000)) * 10_000)
        return bool(waiting)

    # Workers.

    def work_one(self, incident: Incident | None = None) -> bool:
        """Work the strongest job that is due; False where there is none or none can be had."""
        database = self.world.database
        with database.write() as connection:
            due = jobs.notify_due(connection, database, again_after_ms=-1, limit=1)
            due = due or jobs.notify_bulk(connection, database, at_once=1)
        if not due:
            return False
        self._incident = incident
        try:
            return self._work(due[0].id)
        finally:
            self._incident = None

    def work_off(self) -> int:
        """Work everything that is due now; return how many jobs that were."""
        for number in range(MOST_JOBS):
            if not self.work_one():
                if not self._silent():
                    return number
                self.end_leases()
        raise AssertionError("the queue does not come to rest")

    def work_again(self) -> None:
        """Notify once more of a job that is done."""
        with self.world.database.read() as connection:
            known = [job for key in self.tags for job in job_records.all_jobs(connection, key)]
        for job in known:
            if job.state in (JobState.DONE, JobState.DEAD):
                assert work(self.world.context, job.id) == NotClaimed()

    def recover(self) -> None:
        """Let the summariser answer and time pass: all work ends, and no placeholder is left."""
        self.summariser.next.clear()
        self.summariser.usually = Answer.GOOD
        self.summariser.chars = LARGE_ROOM
        self.configure(enabled=True)
        for who in range(len(self.sessions)):
            self.say(who, Shape())
        self.end_leases()
        self.work_off()
        for _ in range(100):
            if not self.wait_for_next():
                break
            self.work_off()
        assert self.open_jobs() == []
        for key in self.tags:
            now = self.state(key)
            dead = any(job.kind == JobKind.BATCH and job.state == JobState.DEAD for job in now.jobs)
            kinds = [one.kind for one in now.live_summaries]
            # A job that has killed its process thrice waits for an operator.
            assert dead or SummaryKind.PLACEHOLDER not in kinds, "a placeholder was never replaced"

    def undo_everything(self) -> None:
        """Undo all: the view is what was said, as if there had been no compaction."""
        for who, session in enumerate(self.sessions):
            while self.undo(who):
                pass
            self.unprune(who)
            account = self.accounts[session.key]
            rows = account.state.live
            assert [row.position for row in rows] == [
                position for position, one in enumerate(account.said) if not one.gone
            ]
            self.check_texts()

    def _work(self, job_id: int) -> bool:
        job = next(job for job in self.open_jobs() if job.id == job_id)
        doing = _Work(job, self.summariser.failed_requests)
        self._working.append(doing)
        try:
            result = work(self.world.worker(), job_id)
        except Killed:
            result = None
        finally:
            self._working.pop()
        if isinstance(result, Crashed) and not isinstance(result.error, UnforeseenError):
            raise result.error
        self.crashes[job_id] += result is None or isinstance(result, Crashed)
        if doing.key not in [one.key for one in self._working]:
            self.accounts[doing.key].nothing_happened(self.state(doing.key))
        if isinstance(result, Worked):
            self._each_attempt_counted(doing)
        if isinstance(result, NotClaimed):
            assert self._silent(), "a job that is due cannot be claimed"
        return not isinstance(result, NotClaimed)

    def _each_attempt_counted(self, doing: _Work) -> None:
        """Check that a failed request counts as an attempt, unless something came in between."""
        job = doing.job
        if job.kind is not JobKind.BATCH or doing.disturbed:
            return
        failed_requests = self.summariser.failed_requests - doing.failed_requests
        assert failed_requests <= 1, "asked again without waiting"
        now = next(one for one in self.state(doing.key).jobs if one.id == job.id)
        if failed_requests and now.state == JobState.DUE and now.trigger == job.trigger:
            assert now.tries == job.tries + 1, "an attempt was not counted"

    # What is looked at on the way.

    def _failpoint(self, point: str) -> None:
        key = self._working[-1].key
        if point == "before-commit":
            self._before = self.state(key)
        elif point in _COMMITTED:
            assert self._before is not None
            settings = self.dial.current().compression
            self.accounts[key].committed(self._before, self.state(key), settings)
            self._before = None
        incident = self._incident
        if incident is None or incident.point != point:
            return
        if incident.after:
            incident.after -= 1
            return
        self._incident = None
        self._working[-1].disturbed = True
        self._happen(incident.event, self.who(key))

    def _happen(self, event: Event, who: int) -> None:
        match event:
            case Event.DIES:
                raise Killed
            case Event.FAILS:
                raise UnforeseenError
            case Event.APPENDS:
                self.begin(who, Shape())
            case Event.SAYS:
                self.say(who, Shape())
            case Event.UNDOES:
                self.undo(who)
            case Event.REWINDS:
                self.rewind(who, 1)
            case Event.NEW_MODEL:
                self.set_model(who, "another", 8_000)
            case Event.COMPACTS:
                self.compact(who)
            case Event.OVERFLOWS:
                self.report(who, OVERFLOW)
            case Event.LEASE_ENDS:
                self.end_leases()
                self.work_one()

    def _asked(self, request: SummaryRequest) -> None:
        """Check a request to a summariser: which worker asks, whether it may, and what it sends."""
        doing = self._working[-1]
        for message in chat_messages(request):
            check_words(message["content"], self.tags, doing.key)
        # Nobody holds the session while a model is waited for.
        with self.world.database.write() as connection:
            sessions.lock(connection, doing.key)
        now = self.state(doing.key)
        if doing.is_held(now):
            self._may_ask(doing.job, now)
        self._failpoint("asked")

    def _may_ask(self, job: JobRecord, now: State) -> None:
        settings = self.dial.current().compression
        batch = job.kind is JobKind.BATCH
        rules = rules_of(job.trigger) if batch else MICRO_RULES
        if batch and job.trigger != Trigger.REPLACE_PLACEHOLDER:
            assert job.tries < settings.summary_attempts, "one attempt too many"
        assert settings.enabled or not rules.honours_switch
        cooldown = now.guards.get(GuardName.COOLDOWN)
        if rules.honours_cooldown and cooldown is not None:
            over = (cooldown.until_at or 0) <= self.world.now()
            assert over or cooldown.subject != self._fingerprint(), "asked in the cooldown"

    def check(self) -> None:
        for key in self.accounts:
            now = self.state(key)
            check_jobs(now)
            by_count, by_rows = ruled_out(self.world.database, key, self.dial.current().compression)
            assert by_rows or not by_count, "the count rules out what the rows do not"
            dead = [job for job in now.jobs if job.state == JobState.DEAD]
            assert all(self.crashes[job.id] >= MAX_CRASHES for job in dead)
            assert now.running is None or self.crashes[now.running.id], "nobody works a running job"
        super().check()

    def check_texts(self) -> None:
        """Everything that was ever written, logs included."""
        check_texts(self.world.database, self._log.lines, self.tags)

    def _fingerprint(self) -> int:
        return chain_fingerprint(self.dial.current().auxiliary.compression)

    def _silent(self) -> bool:
        """Return whether a job is held by a worker that has died, or by one that is being
        played."""
        return any(job.state is JobState.RUNNING for job in self.open_jobs())


class _Log(logging.Handler):
    """Keeps what our modules log."""

    NAMES = ("workers", "storage", "producers")

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._levels = {name: logging.getLogger(name).level for name in self.NAMES}
        for name in self.NAMES:
            logging.getLogger(name).addHandler(self)
            logging.getLogger(name).setLevel(logging.DEBUG)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def close(self) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).removeHandler(self)
            logging.getLogger(name).setLevel(level)
        super().close()
