"""A summariser that fails in every way: the session stays as it was, or gets a placeholder.

The model is a local server that speaks the real protocol through the real client.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from storage.conversations.rows import Kind
from storage.conversations.summaries import SummaryKind
from storage.engine import Database
from storage.guards import GuardName
from storage.outcomes import Outcome
from tests.support.model.behaviours import (
    BadJson,
    Behaviour,
    Cut,
    Echo,
    Empty,
    Good,
    Huge,
    KeepAlive,
    Length,
    NullContent,
    Page,
    Plan,
    ReasoningOnly,
    Refusal,
    Reset,
    Say,
    Secrets,
    Silence,
    Status,
    ToolCall,
    Trickle,
    WrongScript,
)
from tests.support.model.server import ModelServer
from tests.support.observing.waiting import wait_until
from tests.support.sessions.gateways import contents, emptied, rows_of
from tests.support.workers.workplace import SLACK_MS, Workplace, desk, stored_rows, structured
from workers.policy.triggers import Trigger
from workers.summariser.contract import ErrorClass

SQLITE = pytest.mark.parametrize("lasting_database", ["sqlite"], indirect=True)

TOO_LONG = "This model's maximum context length is 8192 tokens. However, you sent 9000."
FREE_TEXT = "The agent changed the bookings as asked and kept the fare rules in mind."


@dataclass(frozen=True)
class Fault:
    """A way to fail, its class, and how many requests a job sends before it gives up.

    `asked_ms` is how long the endpoint asks to wait, `endpoint` and `compression` are settings
    under which it does not take long.
    """

    behaviour: Behaviour | None
    error_class: ErrorClass
    requests: int = 3
    asked_ms: int = 0
    endpoint: Mapping[str, Any] = field(default_factory=dict)
    compression: Mapping[str, Any] = field(default_factory=dict)


FAULTS = {
    "429": Fault(Status(429), ErrorClass.RATE_LIMITED),
    "429-retry-after": Fault(Status(429, retry_after="7"), ErrorClass.RATE_LIMITED, asked_ms=7_000),
    "500": Fault(Status(500), ErrorClass.SERVER_ERROR),
    "503": Fault(Status(503), ErrorClass.SERVER_ERROR),
    "401": Fault(Status(401), ErrorClass.AUTH, requests=1),
    "403": Fault(Status(403), ErrorClass.AUTH, requests=1),
    "404": Fault(Status(404), ErrorClass.NOT_FOUND, requests=1),
    "400": Fault(Status(400), ErrorClass.BAD_REQUEST, requests=1),
    "400-overflow": Fault(
        Status(400, body={"error": {"message": TOO_LONG}}), ErrorClass.CONTEXT_OVERFLOW
    ),
    "refused": Fault(None, ErrorClass.CONNECTION),
    "reset": Fault(Reset(), ErrorClass.CONNECTION),
    "no-first-byte": Fault(Silence(), ErrorClass.FIRST_BYTE_TIMEOUT, endpoint={"timeout": 0.15}),
    "falls-silent": Fault(
        Silence(chunks=2), ErrorClass.IDLE_TIMEOUT, compression={"context_timeout_seconds": 0.15}
    ),
    "trickles": Fault(
        Trickle(), ErrorClass.TOTAL_TIMEOUT, compression={"context_total_ceiling_seconds": 0.3}
    ),
    "reasoning-only": Fault(ReasoningOnly(), ErrorClass.EMPTY),
    "length": Fault(Length(), ErrorClass.CUT_BY_LENGTH),
    "empty": Fault(Empty(), ErrorClass.EMPTY),
    "wrong-language": Fault(WrongScript(), ErrorClass.WRONG_SCRIPT),
    "tool-call": Fault(ToolCall(), ErrorClass.TOOL_CALL),
    "refusal": Fault(Refusal(), ErrorClass.REFUSAL),
    "echo": Fault(Echo(), ErrorClass.ECHO),
    "100-KB": Fault(Huge(), ErrorClass.TOO_LARGE),
    "invalid-json": Fault(BadJson(), ErrorClass.ERROR_PAGE),
    "html": Fault(Page(), ErrorClass.ERROR_PAGE),
    "missing-sections": Fault(Say(FREE_TEXT), ErrorClass.MISSING_SECTIONS),
}

MORE_FAULTS = {
    "503-retry-after": Fault(
        Status(503, retry_after="86400"), ErrorClass.SERVER_ERROR, asked_ms=600_000
    ),
    "reset-in-the-answer": Fault(Reset(chunks=2), ErrorClass.INTERRUPTED),
    "cut-stream": Fault(Cut(), ErrorClass.INTERRUPTED),
    "keep-alive-only": Fault(
        KeepAlive(), ErrorClass.FIRST_BYTE_TIMEOUT, endpoint={"timeout": 0.15}
    ),
    "thinks-without-end": Fault(
        Trickle(field_name="reasoning"),
        ErrorClass.TOTAL_TIMEOUT,
        compression={"context_total_ceiling_seconds": 0.3},
    ),
    "null": Fault(NullContent(), ErrorClass.EMPTY),
    "plan": Fault(Plan(), ErrorClass.PLAN),
    "secrets": Fault(Secrets(), ErrorClass.SECRETS),
}

ALL = {**FAULTS, **MORE_FAULTS}

TURNS = 8

OF_THE_SESSION = ("messages", "summaries", "sessions", "cursors")
"""Tables that hold what a session is. A failed attempt changes none of them."""


class Endpoint:
    """Where the model is, and fails in one way until it is mended."""

    def __init__(self, model: ModelServer, fault: Fault, stack: ExitStack) -> None:
        self._stack = stack
        self.model: ModelServer | None = model
        self.url = model.base_url
        if fault.behaviour is not None:
            model.always(fault.behaviour)
            return
        # A port that is taken, so that nobody else gets it, and where nobody listens.
        self._taken = stack.enter_context(socket.socket())
        self._taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._taken.bind(("127.0.0.1", 0))
        self._port = self._taken.getsockname()[1]
        self.model = None
        self.url = f"http://127.0.0.1:{self._port}/v1"

    def mend(self) -> None:
        """Give good answers from now on."""
        if self.model is None:
            self._taken.close()
            self.model = self._stack.enter_context(ModelServer(self._port))
            self.model.answer(structured)
        self.model.always(Good())


@dataclass
class Scene:
    """A workplace whose model fails, and a batch job that is due."""

    place: Workplace
    endpoint: Endpoint
    fault: Fault

    def fail(self) -> Any:
        """Work the job up to its last attempt, looking at each wait; return what that came to."""
        place, fault = self.place, self.fault
        for number in range(1, fault.requests):
            (outcome,) = place.work()
            assert outcome.outcome is Outcome.FAILED
            assert outcome.error_class is fault.error_class
            job = place.job()
            assert job is not None
            assert (job.state.value, job.tries, job.attempt) == ("due", number, 0)
            assert job.reason == fault.error_class.value
            longest = 2_000 * 2 ** (number - 1)
            if fault.error_class is ErrorClass.CONTEXT_OVERFLOW:
                longest = 0  # the next request is another one
            waits = place.wait_ms()
            assert fault.asked_ms <= waits <= max(fault.asked_ms, longest) + SLACK_MS
            assert GuardName.COOLDOWN not in place.guards()
            place.pass_by(waits)
        (last,) = place.work()
        return last

    def mend(self) -> None:
        """Let the model answer, and give it the usual time for it."""
        self.endpoint.mend()
        self.place.configure(
            endpoint={"timeout": 300},
            context_timeout_seconds=120,
            context_total_ceiling_seconds=600,
        )

    def session(self) -> dict[str, Any]:
        """Return what the session is, row by row."""
        stored = contents(self.place.database)
        return {table: stored[table] for table in OF_THE_SESSION}

    def check_records(self) -> None:
        """Check that each attempt left a record, and that each request is in one."""
        fault, tries = self.fault, self.place.tries()
        failed = [one for one in tries if one.outcome == "failed"]
        assert [one.error_class for one in failed] == [fault.error_class.value] * fault.requests
        assert [one.requests for one in failed] == [1] * fault.requests
        assert sum(one.requests for one in tries) == fault.requests
        assert all(one.tokens_before == one.tokens_after for one in failed)
        if self.endpoint.model is None:
            return
        # A server that is given up at once may read what it was sent only then.
        served = self.endpoint.model.requests
        wait_until(lambda: len(served) >= fault.requests, "every request arrives")
        asked = [json.dumps(request["messages"]) for request in served]
        assert len(asked) == fault.requests
        # What was too long is never sent again as it was; all else may be answered next time.
        too_long = fault.error_class is ErrorClass.CONTEXT_OVERFLOW
        assert len(set(asked)) == (fault.requests if too_long else 1)

    def check_cooldown(self, ms: int) -> None:
        """Automatic passes rest, by the database's clock, for as long as they should."""
        guard = self.place.guards()[GuardName.COOLDOWN]
        assert guard.until_at is not None
        assert guard.detail == self.fault.error_class.value
        assert ms - SLACK_MS <= guard.until_at - guard.updated_at <= ms + SLACK_MS
        assert 0 < guard.left_ms <= ms


@contextmanager
def scene(
    database: Database, model: ModelServer, fault: Fault, *, abort: bool, restarts: bool
) -> Iterator[Scene]:
    with ExitStack() as stack:
        endpoint = Endpoint(model, fault, stack)
        place = stack.enter_context(
            Workplace(
                desk(database, turns=TURNS),
                endpoint.url,
                restarts=restarts,
                compression={**fault.compression, "abort_on_summary_failure": abort},
                endpoint=fault.endpoint,
            )
        )
        place.ask(Trigger.AFTER_RESPONSE)
        yield Scene(place, endpoint, fault)


@SQLITE
@pytest.mark.parametrize("fault", ALL.values(), ids=ALL)
def test_the_session_stays_as_it_was_and_rests_where_failures_abort(
    fault: Fault, database: Database, model: ModelServer
) -> None:
    with scene(database, model, fault, abort=True, restarts=True) as it:
        before = it.session()
        last = it.fail()
        assert last.outcome is Outcome.GAVE_UP
        assert last.error_class is fault.error_class
        assert it.session() == before
        it.check_records()
        it.check_cooldown(600_000)
        assert it.place.job() is None
        # When the cooldown is over, the next automatic pass asks again.
        it.mend()
        it.place.pass_by(600_000)
        it.place.ask(Trigger.AFTER_RESPONSE)
        (again,) = it.place.work()
        assert again.outcome is Outcome.COMPACTED
        assert GuardName.COOLDOWN not in it.place.guards()
        assert it.place.job() is None


@SQLITE
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_placeholder_is_shown_and_replaced_where_failures_do_not_abort(
    fault: Fault, database: Database, model: ModelServer
) -> None:
    with scene(database, model, fault, abort=False, restarts=False) as it:
        before = it.place.view()
        last = it.fail()
        assert last.outcome is Outcome.PLACEHOLDER
        it.check_records()
        it.check_cooldown(600_000)
        view = it.place.view()
        head, marker, tail = view[:3], view[3], view[4:]
        assert marker.kind is Kind.BATCH
        assert 8 <= len(tail) <= 12
        assert [*head, *tail] == [*before[:3], *before[-len(tail) :]]
        assert kinds_of(database) == [(SummaryKind.PLACEHOLDER, "live")]
        job = it.place.job()
        assert job is not None
        assert (job.trigger, job.tries, job.state.value) == (Trigger.REPLACE_PLACEHOLDER, 0, "due")
        assert abs(it.place.wait_ms() - 30_000) <= SLACK_MS
        # It is replaced as soon as the model answers, whatever the cooldown says.
        it.mend()
        it.place.pass_by(30_000)
        (replaced,) = it.place.work()
        assert replaced.outcome is Outcome.PLACEHOLDER_REPLACED
        assert kinds_of(database) == [
            (SummaryKind.PLACEHOLDER, "superseded"),
            (SummaryKind.PLACEHOLDER_REPLACED, "live"),
        ]
        assert GuardName.COOLDOWN not in it.place.guards()
        assert it.place.job() is None
        now = it.place.view()
        assert [*now[:3], *now[4:]] == [*head, *tail]


def kinds_of(database: Database) -> list[tuple[Any, ...]]:
    return rows_of(database, "SELECT kind, status FROM summaries ORDER BY id")


@pytest.mark.parametrize("name", ["503", "401", "400-overflow"])
def test_a_restart_of_every_process_in_between_changes_nothing(
    name: str, database: Database, model: ModelServer
) -> None:
    ends = []
    for restarts in (True, False):
        emptied(database)
        model.forget()
        model.answer(structured)
        with scene(database, model, FAULTS[name], abort=False, restarts=restarts) as it:
            it.fail()
            after_failure = stored_rows(database)
            it.mend()
            it.place.pass_by(30_000)
            it.place.work()
            asked = [json.dumps(request["messages"]) for request in model.requests]
            ends.append((after_failure, stored_rows(database), asked))
    assert ends[0] == ends[1]
    assert len(ends[0][1]["summaries"]) == 2


def test_a_fallback_answers_in_the_same_attempt(database: Database, model: ModelServer) -> None:
    with ModelServer() as spare, chained(database, model, spare) as place:
        model.always(Status(401))
        spare.answer(structured)
        place.ask(Trigger.AFTER_RESPONSE)
        (done,) = place.work()
        assert done.outcome is Outcome.COMPACTED
        (attempt,) = place.tries()
        assert (attempt.outcome, attempt.model, attempt.requests) == ("compacted", "spare", 2)
        assert (len(model.requests), len(spare.requests)) == (1, 1)
        assert GuardName.COOLDOWN not in place.guards()


@pytest.mark.parametrize(
    ("first", "second", "attempts"),
    [
        (Status(429), Status(429), 3),
        # What a repetition may mend decides: a refused key does not end the job.
        (Status(401), Status(503), 3),
        (Status(500), Status(404), 3),
        (Status(401), Status(404), 1),
    ],
    ids=["429-429", "401-503", "500-404", "401-404"],
)
@SQLITE
def test_a_job_asks_each_model_of_the_chain_as_often_as_it_has_attempts(
    first: Status, second: Status, attempts: int, database: Database, model: ModelServer
) -> None:
    with ModelServer() as spare, chained(database, model, spare) as place:
        model.always(first)
        spare.always(second)
        place.ask(Trigger.AFTER_RESPONSE)
        for _ in range(attempts):
            (last,) = place.work()
            if last.outcome is Outcome.FAILED:
                place.pass_by(place.wait_ms())
        assert last.outcome is Outcome.GAVE_UP
        assert (len(model.requests), len(spare.requests)) == (attempts, attempts)
        assert [one.requests for one in place.tries()] == [2] * attempts


@contextmanager
def chained(database: Database, model: ModelServer, spare: ModelServer) -> Iterator[Workplace]:
    with Workplace(
        desk(database, turns=TURNS),
        model.base_url,
        compression={"abort_on_summary_failure": True},
        fallbacks=[{"model": "spare", "base_url": spare.base_url}],
    ) as place:
        yield place
