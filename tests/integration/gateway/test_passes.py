"""Gateways that ask and wait, and workers that really compact meanwhile."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from producers import Session, SignalKind, Status
from storage.conversations.rows import Kind
from storage.engine import Database
from storage.guards import GuardName
from tasks.application import make_app
from tasks.names import SUMMARISE
from tests.integration.gateway.test_signals import SLOW_POLL, listening, subscribers
from tests.support.model.behaviours import Status as HttpStatus
from tests.support.model.server import ModelServer
from tests.support.observing.waiting import wait_until
from tests.support.programs.processes import PROJECT
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on, url_of
from tests.support.sessions.play import Play, Turn, playing
from tests.support.sessions.small_gateways import LONG
from tests.support.workers.scripted_worker import in_background
from workers.summariser.client import OpenAISummariser

DESK: dict[str, Any] = {"protect_last_n": 8, "threshold_tokens": 4000, "micro_compact": False}
"""Sixteen turns of the airline desk are over this threshold, and have a middle to compact."""

TOO_MANY: dict[str, Any] = {"hygiene_hard_message_limit": 66, "abort_on_summary_failure": True}
"""The limit lies above what sixteen turns have."""

OVERFLOW = {"status": 400, "message": "prompt is too long: 210000 tokens > 200000 maximum"}


def say(play: Play, session: Session, turns: range) -> None:
    for number in turns:
        play.say(session, Turn(turn(number), [None] * 4))
    # Their turn jobs are none of these tests.
    play.work_off()


@contextmanager
def scene(database: Database, **compression: Any) -> Iterator[tuple[Play, Session]]:
    """Yield a session that is over its threshold, and a worker to call."""
    with playing(url_of(database), **{**DESK, **compression}) as play:
        session = play.gateway.open_session("s", context_window=128_000)
        say(play, session, range(16))
        yield play, session


@contextmanager
def failing_scene(
    database: Database, **compression: Any
) -> Iterator[tuple[Play, Session, ModelServer]]:
    """Yield the same with a model that answers nothing but errors."""
    with ModelServer() as model:
        model.always(HttpStatus(401))
        summariser = OpenAISummariser(
            model="test-model", base_url=model.base_url, api_key="", poll_seconds=0.01
        )
        with playing(url_of(database), summariser=summariser, **{**DESK, **compression}) as play:
            session = play.gateway.open_session("s", context_window=128_000)
            say(play, session, range(16))
            yield play, session, model
        summariser.close()


def test_a_request_goes_after_the_pass_that_preflight_waited_for(database: Database) -> None:
    with scene(database) as (play, session):
        before = play.gateway.load_context(session)
        assert before.tokens >= 4000
        with in_background(play.work_one):
            answer = play.gateway.preflight(session, wait=LONG)
        assert (answer.go, answer.over_threshold, answer.changed) == (True, False, True)
        assert answer.outcome == "compacted"
        after = play.gateway.load_context(session)
        assert after.tokens == answer.tokens < 4000
        assert len(after.messages) == answer.messages_after < len(before.messages)
        assert [row.kind for row in play.view(session) if row.kind.is_marker] == [Kind.BATCH]
        # Everything is stored still.
        assert len([row for row in play.everything(session) if row.message is not None]) == 64


def test_a_person_gets_the_part_compacted_that_was_asked_for(database: Database) -> None:
    with scene(database, enabled=False) as (play, session):
        with in_background(play.work_one):
            done = play.gateway.compact(session, focus="refunds", keep_last=3, wait=LONG)
        assert done.status is Status.CHANGED
        requests = [row for row in play.view(session) if row.opens_turn]
        assert [row.position for row in requests][-3:] == [52, 56, 60]
        assert len(requests) == 4


def test_an_overflow_is_answered_by_a_smaller_view_in_the_same_turn(database: Database) -> None:
    with scene(database) as (play, session):
        play.gateway.append(session, turn(16)[:1])
        with in_background(play.work_one):
            verdict = play.gateway.report_error(session, OVERFLOW, wait=LONG)
        assert verdict.retry
        assert play.gateway.load_context(session).messages[-1] == turn(16)[0]


def test_too_many_messages_get_a_placeholder_with_the_model_down(database: Database) -> None:
    with failing_scene(database, **TOO_MANY) as (play, session, model):
        play.gateway.append(session, turn(16)[:3])
        with in_background(play.work_one):
            done = play.gateway.hygiene(session, wait=LONG)
        assert (done.status, done.outcome) == (Status.CHANGED, "placeholder")
        assert done.messages_after < 60
        assert model.requests
        kinds = [signal.kind for signal in play.gateway.signals(session, quiet=True)]
        assert SignalKind.PLACEHOLDER in kinds


def test_a_failure_suppresses_passes_until_a_person_asks(database: Database) -> None:
    with (
        failing_scene(database, abort_on_summary_failure=True) as (play, session, model),
        in_background(play.work_one),
    ):
        answer = play.gateway.preflight(session, wait=LONG)
        assert (answer.go, answer.status) == (True, Status.FAILED)
        asked = len(model.requests)
        play.gateway.finalize_turn(session, turn(16))
        # Here no model is configured, so it is the worker that knows of the cooldown.
        held = play.gateway.preflight(session, wait=LONG)
        assert held.outcome == "suppressed"
        assert held.suppressed_by is not None
        assert held.suppressed_by.guard is GuardName.COOLDOWN
        assert held.go
        assert len(model.requests) == asked
        assert not play.gateway.compact(session, wait=LONG).changed
        assert len(model.requests) > asked


# Channels are the same in all databases of a Redis, so not in two processes at once.
@pytest.mark.xdist_group("pushes")
def test_the_worker_pushes_its_signals(database: Database, redis_url: str) -> None:
    with (
        scene(database, progress_notices=True) as (play, session),
        gateway_on(url_of(database), broker_url=redis_url) as ear,
        listening(ear, poll_seconds=SLOW_POLL) as heard,
    ):
        app = make_app(redis_url, lambda: play.context)
        wait_until(lambda: subscribers(redis_url, "local") == 1, "the subscription")
        assert play.gateway.preflight(session).pending
        ((job,),) = play.rows("SELECT id FROM jobs WHERE kind = 'batch'")
        done = app.tasks[SUMMARISE].apply(kwargs={"job_id": job})
        app.close()
        assert done.state == "SUCCESS"
        signals = play.gateway.signals(session)
        assert [signal.kind for signal in signals] == [SignalKind.STARTED, SignalKind.FINISHED]
        wait_until(partial(heard.__contains__, signals[-1]), "the push")
        assert heard == signals


def test_the_documented_way_of_asking_shrinks_what_the_provider_refuses(database: Database) -> None:
    sent: list[int] = []

    def send(messages: list[Any], max_tokens: int | None = None) -> str:
        sent.append(len(messages))
        if len(sent) == 1:
            raise ValueError("This model's maximum context length is 8192 tokens, you sent 9001.")
        assert max_tokens is None
        return "answer"

    ask: Any = runpy.run_path(str(PROJECT / "examples" / "ask.py"))["ask"]
    question = {"role": "user", "content": "?"}
    with scene(database, threshold_tokens=None) as (play, session):
        with in_background(play.work_one):
            assert ask(play.gateway, session, question, send) == "answer"
        assert len(play.view(session)) + 2 == sent[1] < sent[0] == 66
