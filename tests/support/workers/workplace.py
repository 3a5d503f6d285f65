"""Workers on one session, a model that a test commands, and a clock that the test moves."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from random import Random
from types import MappingProxyType
from typing import Any, Self

from sqlalchemy import select
from sqlalchemy import text as sql

from producers import Gateway
from storage import attempts, guards, jobs, signals
from storage.attempts import AttemptRecord
from storage.conversations import messages
from storage.conversations.rows import Row
from storage.engine import Database, open_database
from storage.guards import GuardName, GuardRecord
from storage.jobs import DueJob, JobKind, job_records
from storage.jobs.job_records import JobRecord
from storage.signals import Signal
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import url_of
from tests.support.sessions.stored_session import StoredSession, dump, later
from workers.conversation.tokens import estimate_text
from workers.policy.failures import RetryPolicy
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work
from workers.runtime.pass_context import PassResult
from workers.settings import Settings, SettingsSource
from workers.summariser.chain import FollowingSummariser
from workers.summariser.contract import SummariserError
from workers.summariser.gate import Blocked, Permit, SharedGate
from workers.summariser.headings import Section
from workers.summariser.rate_limits import Limits

TODAY = date(2026, 11, 30)
DESK: Mapping[str, Any] = {"protect_last_n": 8, "threshold_tokens": 4000}
"""Settings under which sixteen turns of the airline desk have a middle of about 5,000 tokens."""

NOTHING: Mapping[str, Any] = MappingProxyType({})

SLACK_MS = 100
"""Between two readings of PostgreSQL's clock within one statement."""

AFTER_LEASE_MS = 61_000


def structured(request: Mapping[str, Any]) -> str:
    """Return a good answer in sections: short, and another one for each request."""
    digest = hashlib.sha256(json.dumps(request["messages"]).encode()).hexdigest()[:8]
    text = f"The agent changed what was asked for and noted it as {digest}."
    return "\n".join(f"{section.heading}\n{text}" for section in Section)


def padded(tokens: int) -> Callable[[Mapping[str, Any]], str]:
    """Good answers of that many tokens."""

    def answer(request: Mapping[str, Any]) -> str:
        text = structured(request)
        while estimate_text(text) < tokens:
            text += f" Step {len(text)} was done."
        return text

    return answer


def desk(database: Database, *, turns: int = 16, **facts: Any) -> StoredSession:
    """Return a session of the airline desk: four messages a turn, about 345 tokens."""
    session = StoredSession.create(database, **{"context_window": 128_000, "model": "m", **facts})
    say(session, range(turns))
    return session


def say(session: StoredSession, numbers: Iterable[int]) -> None:
    """Append turns of the airline desk."""
    with session.database.write() as connection:
        for number in numbers:
            session.append_in(connection, turn(number))


_LEFT_OUT = re.compile(r"_at$|_ms$|_until$|_since$|^lease_owner$|^lease|^event_id$|^actor$")
_OF_A_MINUTE = frozenset({"minute", "requests", "tokens"})
_NUMBERED = {
    "id": "",
    "absorbed_by": "summaries",
    "summary_id": "summaries",
    "replaces": "summaries",
    "job_id": "jobs",
    "session_key": "sessions",
    "key": "sessions",
}


def stored_rows(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Everything that is stored but times, with ids counted from 1 in each table. What waits to
    be indexed is left out: it is those very ids."""
    stored = dump(database)
    stored.pop("search_pending")
    order = {
        table: {
            row[name]: i for i, row in enumerate(rows, 1) for name in ("id", "key") if name in row
        }
        for table, rows in stored.items()
    }

    def plain(table: str, name: str, value: Any) -> Any:
        if _LEFT_OUT.search(name) or (table == "endpoints" and name in _OF_A_MINUTE):
            return None
        if name in _NUMBERED and isinstance(value, int):
            return order[_NUMBERED[name] or table][value]
        if name == "facts":
            return {
                fact: of
                for fact, of in json.loads(value).items()
                if fact not in ("until", "summary")
            }
        return value

    return {
        table: [{name: plain(table, name, value) for name, value in row.items()} for row in rows]
        for table, rows in stored.items()
    }


class Killed(BaseException):
    """The process ends here. Nothing that a job may catch."""


class Workplace:
    """Workers on `session` whose summariser is the model at `model_url`.

    With `restarts` everything is done by processes that have just started: connections,
    summariser and worker context are new each time and closed afterwards; else by one process. The
    clock is `elapsed_ms` ahead of the database's. `compression` and `endpoint` are blocks of the
    settings, `fallbacks` further endpoints.
    """

    def __init__(
        self,
        session: StoredSession,
        model_url: str,
        *,
        restarts: bool = False,
        compression: Mapping[str, Any] = NOTHING,
        endpoint: Mapping[str, Any] = NOTHING,
        fallbacks: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.session = session
        self.database = session.database
        self.restarts = restarts
        self.elapsed_ms = 0
        self.model_url = model_url
        self.compression = dict(compression)
        self.endpoint = dict(endpoint)
        self.fallbacks = list(fallbacks)
        self.settings = self._settings()
        self._lasting: FollowingSummariser | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lasting is not None:
            self._lasting.close()

    def configure(self, *, endpoint: Mapping[str, Any] = NOTHING, **compression: Any) -> None:
        """Change settings, as an operator does who edits the file."""
        self.compression.update(compression)
        self.endpoint.update(endpoint)
        self.settings = self._settings()

    def _settings(self) -> Settings:
        model = {"model": "test-model", "base_url": self.model_url, **self.endpoint}
        return Settings.model_validate(
            {
                "database_url": url_of(self.database),
                "compression": {**DESK, **self.compression},
                "auxiliary": {"compression": {**model, "fallback_chain": self.fallbacks}},
            }
        )

    @property
    def now(self) -> Database:
        """The database by the clock of the test."""
        return later(self.database, self.elapsed_ms)

    def pass_by(self, ms: int) -> None:
        """Let time pass."""
        self.elapsed_ms += ms

    @contextmanager
    def process(
        self,
        *,
        failpoint: Callable[[str], None] = lambda _: None,
    ) -> Iterator[WorkerContext]:
        """Yield a worker context of a process that starts now, or of the one that runs all
        along."""
        source = _SettingsOf(self)
        with ExitStack() as stack:
            if self.restarts:
                database = open_database(url_of(self.database), offset_ms=self.elapsed_ms)
                stack.callback(database.close)
                summariser = FollowingSummariser(source, {}, SharedGate(database))
                stack.callback(summariser.close)
            else:
                database = self.now
                if self._lasting is None:
                    self._lasting = FollowingSummariser(source, {}, _GateOf(self))
                summariser = self._lasting
            yield WorkerContext(
                database=database,
                settings=source,
                summariser=summariser,
                retry=RetryPolicy(),
                rng=Random(7),
                today=lambda: TODAY,
                failpoint=failpoint,
            )

    def ask(
        self,
        trigger: Trigger,
        *,
        delay_ms: int = 0,
        of: StoredSession | None = None,
        **options: Any,
    ) -> DueJob:
        """Make a batch pass due for a trigger, as gateways and the turn job do."""
        with self.now.write() as connection:
            return jobs.enqueue(
                connection,
                self.now,
                (of or self.session).key,
                kind=JobKind.BATCH,
                queue=BATCH_QUEUE,
                trigger=trigger,
                priority=RULES[trigger].priority,
                options=options,
                delay_ms=delay_ms,
            )

    @contextmanager
    def gateway(self) -> Iterator[Gateway]:
        """Yield a gateway of the session's owner; its sessions go by their ids."""
        with Gateway(self.settings, owner="o", database=self.now) as gateway:
            yield gateway

    def work(self, **tools: Any) -> list[PassResult]:
        """Work the due job of highest priority; return its results, or [] where none is due."""
        with self.now.write() as connection:
            due = jobs.notify_due(connection, self.now, again_after_ms=-1, limit=1)
        if not due:
            return []
        with self.process(**tools) as context:
            match work(context, due[0].id):
                case Worked(passes=passes):
                    return list(passes)
                case NotClaimed():
                    raise AssertionError(f"{due[0]} is due but was not claimed")
                case Crashed(error):
                    raise error

    def work_off(self, **tools: Any) -> list[PassResult]:
        """Work whatever is due and becomes due within a day, letting time pass as needed."""
        outcomes: list[PassResult] = []
        while (job := self.job()) is not None:
            self.pass_by(max(0, job.run_at - self.time()))
            outcomes += self.work(**tools)
        return outcomes

    def rescue(self) -> None:
        """Let the leases of killed processes end, and put their jobs back."""
        self.pass_by(AFTER_LEASE_MS)
        with self.now.write() as connection:
            jobs.rescue_expired(connection, self.now)

    def time(self) -> int:
        """Return the database's clock, in milliseconds since 1970."""
        with self.now.read() as connection:
            return int(connection.execute(select(self.now.now())).scalar_one())

    def job(self) -> JobRecord | None:
        """Return the batch job that is due or runs."""
        with self.now.read() as connection:
            found = job_records.open_jobs(connection, self.session.key)
        return next((job for job in found if job.kind is JobKind.BATCH), None)

    def wait_ms(self) -> int:
        """Return how long the batch job has to wait."""
        query = "SELECT run_at - updated_at FROM jobs WHERE kind = 'batch' AND state = 'due'"
        with self.now.read() as connection:
            return int(connection.execute(sql(query)).scalar_one())

    def guards(self) -> dict[GuardName, GuardRecord]:
        with self.now.read() as connection:
            return guards.read_all(connection, self.now, self.session.key)

    def tries(self) -> list[AttemptRecord]:
        with self.now.read() as connection:
            return attempts.newest(connection, self.session.key, limit=1000)

    def signals(self) -> list[Signal]:
        with self.now.read() as connection:
            return signals.read(connection, owner="o", key=self.session.key, quiet=True)

    def view(self) -> list[Row]:
        return self.session.view()

    def everything(self) -> list[Any]:
        """Return every message that is live or archived, in order."""
        with self.now.read() as connection:
            rows = messages.read_everything(connection, self.session.key)
        return [row.message for row in rows if row.message is not None]


class _SettingsOf(SettingsSource):
    """The settings of a workplace as they are now."""

    def __init__(self, place: Workplace) -> None:
        super().__init__(place.settings)
        self._place = place

    def current(self) -> Settings:
        return self._place.settings


class _GateOf:
    """The gate of a process that runs while the test moves the clock."""

    def __init__(self, place: Workplace) -> None:
        self._place = place

    def _now(self) -> SharedGate:
        return SharedGate(self._place.now)

    def admit(
        self, endpoint: str, limits: Limits, *, tokens: int, longest_seconds: float
    ) -> Permit | Blocked:
        return self._now().admit(endpoint, limits, tokens=tokens, longest_seconds=longest_seconds)

    def peek(self, endpoint: str, limits: Limits) -> Blocked | None:
        return self._now().peek(endpoint, limits)

    def answered(self, permit: Permit, *, used_tokens: int | None) -> None:
        self._now().answered(permit, used_tokens=used_tokens)

    def failed(self, permit: Permit, error: SummariserError) -> None:
        self._now().failed(permit, error)

    def given_up(self, permit: Permit) -> None:
        self._now().given_up(permit)
