"""Before a request: go, or compact first, and for how long that is worth waiting."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from producers import CompressionStuck, Gateway, RequestError, SessionNotFound, Status
from storage import guards
from storage.conversations import sessions
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import JobState
from tasks.names import SUMMARISE
from tests.support.observing.at_once import at_once, succeeded
from tests.support.observing.waiting import bound
from tests.support.sessions.gateways import contents, gateway_on, url_of, user
from tests.support.sessions.small_gateways import (
    LONG,
    SHORT,
    THRESHOLD,
    batch_jobs,
    grown,
    guard,
    hold,
    live_tokens,
    small_gateway,
)
from tests.support.sessions.stored_session import later
from tests.support.workers.scripted_worker import (
    Dies,
    Ends,
    ScriptedWorker,
    Waits,
    compacts,
    scripted,
)
from workers.summariser.endpoints import SummariserSettings, chain_fingerprint


@pytest.fixture
def gateway(database: Database) -> Iterator[Gateway]:
    with small_gateway(database) as opened:
        yield opened


class TestBelowTheThreshold:
    def test_a_request_goes_and_nothing_is_written(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, THRESHOLD - 500)
        before = contents(database)
        for tokens in (None, 0, THRESHOLD - 1):
            answer = gateway.preflight(session, tokens=tokens, wait=LONG)
            assert answer.go
            assert not answer.over_threshold
            assert answer.status is Status.NOT_NEEDED
            assert (answer.threshold, answer.passes, answer.changed) == (THRESHOLD, 0, False)
        assert contents(database) == before

    def test_the_threshold_itself_is_over_it(self, gateway: Gateway) -> None:
        session = grown(gateway, THRESHOLD - 500)
        answer = gateway.preflight(session, tokens=THRESHOLD)
        assert not answer.go
        assert answer.over_threshold
        assert answer.pending

    def test_a_window_without_room_goes_since_nothing_can_be_said(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 100)
        with database.write() as connection:
            sessions.set_model(
                connection,
                session.key,
                model="m",
                model_config=None,
                context_window=1,
                reserved_output=0,
            )
        answer = gateway.preflight("s")
        assert answer.threshold is None
        assert answer.status is Status.NOT_NEEDED


class TestOverTheThreshold:
    def test_without_waiting_a_pass_is_enqueued_once_and_the_answer_is_compact_first(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        for _ in range(3):
            answer = gateway.preflight(session)
            assert (answer.go, answer.fits, answer.pending) == (False, True, True)
            assert answer.status is Status.PENDING
            assert "not done yet" in answer.reason
        (job,) = batch_jobs(database, session)
        assert (job.state, job.trigger, job.queue) == (JobState.DUE, "preflight", "batch")
        counted = guard(database, session, GuardName.PASSES_OF_TURN)
        assert counted is not None
        assert (counted.count, counted.subject) == (1, 1)

    def test_with_no_worker_the_wait_ends_with_a_pending_answer(self, gateway: Gateway) -> None:
        session = grown(gateway, 5000)
        answer = gateway.preflight(session, wait=SHORT)
        assert (answer.go, answer.pending, answer.passes) == (False, True, 0)
        assert answer.tokens == answer.tokens_asked

    def test_a_pass_that_is_waited_for_lets_the_request_go(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        stored = live_tokens(database, session)
        with scripted(database, compacts(6, 3000)):
            answer = gateway.preflight(session, wait=LONG)
        assert answer.go
        assert (answer.passes, answer.changed) == (1, True)
        assert (answer.tokens_asked, answer.tokens) == (stored, stored - 3000)
        done = answer
        assert done.status is Status.CHANGED
        assert (done.messages_before, done.messages_after) == (10, 4)
        assert (done.tokens_before, done.tokens_after) == (stored, stored - 3000)

    def test_the_gateways_own_estimate_is_corrected_by_what_the_pass_took(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        with scripted(database, compacts(6, 3000)):
            answer = gateway.preflight(session, tokens=6500, wait=LONG)
        assert (answer.tokens_asked, answer.tokens, answer.go) == (6500, 3500, True)

    def test_passes_go_on_while_they_make_progress_up_to_the_limit_of_a_turn(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 20_000)
        with scripted(database, *[compacts(1, 3000)] * 3):
            answer = gateway.preflight(session, wait=LONG)
            assert (answer.passes, answer.go) == (3, True)
            assert answer.over_threshold
            assert answer.status is Status.SPENT
            again = gateway.preflight(session, wait=LONG)
            assert (again.passes, again.go, again.over_threshold) == (0, True, True)
        # The next turn has passes of its own.
        gateway.finalize_turn(session, [user("next")])
        with scripted(database, compacts(1, 9000)):
            assert not gateway.preflight(session, wait=LONG).over_threshold

    def test_fewer_passes_are_made_where_configured(self, database: Database) -> None:
        with small_gateway(database, max_attempts=1) as gateway:
            session = grown(gateway, 20_000)
            with scripted(database, compacts(1, 3000)):
                assert gateway.preflight(session, wait=LONG).passes == 1

    @pytest.mark.parametrize("outcome", ["nothing_due", "not_smaller"])
    def test_a_pass_that_changes_nothing_is_the_only_one_of_its_turn(
        self, gateway: Gateway, database: Database, outcome: str
    ) -> None:
        session = grown(gateway, 5000)
        with scripted(database, Ends(outcome)):
            answer = gateway.preflight(session, wait=LONG)
            assert (answer.go, answer.over_threshold, answer.changed) == (True, True, False)
            assert answer.status is Status.UNCHANGED
            assert outcome in answer.reason
            again = gateway.preflight(session, wait=LONG)
            assert again.status is Status.SPENT
            assert again.go

    def test_too_little_progress_ends_it(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 20_000)
        with scripted(database, Ends("pruned_enough", 0, 500)):
            answer = gateway.preflight(session, wait=LONG)
        assert (answer.passes, answer.changed, answer.go) == (1, True, True)
        assert not answer.smaller

    def test_a_failed_pass_leaves_everything_and_lets_the_request_go(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        with scripted(database, Ends("failed", error_class="auth")):
            answer = gateway.preflight(session, wait=LONG)
        assert (answer.go, answer.passes, answer.changed) == (True, 0, False)
        assert answer.status is Status.FAILED
        assert "auth" in answer.reason

    def test_a_dead_job_counts_as_failed(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 5000)
        with scripted(database, Dies()):
            answer = gateway.preflight(session, wait=LONG)
        assert answer.status is Status.FAILED

    def test_more_than_the_window_does_not_go(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 5000)
        with scripted(database, Ends("nothing_due")):
            answer = gateway.preflight(session, tokens=128_001, wait=LONG)
        assert (answer.go, answer.fits, answer.window) == (False, False, 128_000)

    def test_a_change_to_a_smaller_model_counts_at_once(self, gateway: Gateway) -> None:
        session = grown(gateway, 3500)
        assert gateway.preflight(session).go
        gateway.set_model(session, "small", context_window=3500)
        answer = gateway.preflight(session)
        assert answer.threshold == int(3500 * 0.85)
        assert answer.pending


class TestWaiting:
    def test_goes_on_through_a_retry_that_is_soon(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        with scripted(database, Waits(1), Waits(1), compacts(5, 3000)):
            answer = gateway.preflight(session, wait=LONG)
        assert (answer.go, answer.passes) == (True, 1)

    def test_ends_at_once_when_the_job_waits_for_longer(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        with scripted(database, Waits(600_000)):
            answer = gateway.preflight(session, wait=LONG)
        assert answer.status is Status.POSTPONED
        assert 590_000 < answer.left_ms <= 600_000
        assert (answer.go, answer.pending) == (True, True)
        assert "server_error" in answer.reason

    def test_says_why_a_job_waits_that_left_no_record(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        waits = Waits(600_000, outcome=None, error_class="breaker_open")
        with scripted(database, waits):
            answer = gateway.preflight(session, wait=LONG)
        assert answer.error_class == "breaker_open"

    def test_does_not_wait_for_a_placeholder_to_be_replaced(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        placeholder = Waits(5_000, outcome="placeholder", rows=5, tokens=3000)
        with scripted(database, placeholder):
            answer = gateway.preflight(session, wait=LONG)
        assert (answer.go, answer.passes) == (True, 1)
        assert answer.status is Status.CHANGED

    def test_joins_a_pass_that_runs_without_asking_for_another(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        worker = ScriptedWorker(database, [])
        gateway.preflight(session)
        (job,) = batch_jobs(database, session)
        claim = worker.claim(job.id)
        assert claim is not None
        assert gateway.preflight(session, wait=SHORT).pending
        worker.end(claim, compacts(5, 3000))
        (job,) = batch_jobs(database, session)
        assert job.state is JobState.DONE
        assert gateway.preflight(session).go

    def test_makes_a_weaker_job_due_at_once(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 5000)
        worker = ScriptedWorker(database, [Waits(600_000)])
        gateway.request_compaction(session)
        assert worker.work_one()
        with scripted(database, compacts(5, 3000)) as next_one:
            assert gateway.preflight(session, wait=LONG).go
        assert [claim.trigger for claim in next_one.claims] == ["preflight"]


class TestManyAtOnce:
    def test_share_one_pass(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 5000)
        with scripted(database, compacts(5, 3000)):
            answers = succeeded(at_once([partial(gateway.preflight, session, wait=LONG)] * 8))
        assert all(answer.go for answer in answers)
        assert len(batch_jobs(database, session)) == 1


class TestTheNotification:
    def test_names_the_task_on_its_queue(self, database: Database, redis_url: str) -> None:
        with gateway_on(url_of(database), broker_url=redis_url) as gateway:
            gateway.open_session("s", context_window=128_000)
            assert gateway.preflight("s", tokens=100_000).pending
        with redis.Redis.from_url(redis_url) as client:
            (message,) = client.lrange("batch", 0, -1)
        assert json.loads(message)["headers"]["task"] == SUMMARISE

    def test_that_reaches_nobody_costs_the_caller_nothing(self, database: Database) -> None:
        with gateway_on(url_of(database), broker_url="redis://127.0.0.1:1/0") as gateway:
            gateway.open_session("s", context_window=128_000)
            started = time.monotonic()
            assert gateway.preflight("s", tokens=100_000, wait=SHORT).pending
            assert time.monotonic() - started < bound(2)


def test_a_changed_configuration_file_counts_from_the_next_call_on(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("compression: {threshold_tokens: 9000}\n", encoding="utf-8")
    monkeypatch.setenv("AFTERTURN_CONFIG", str(file))
    monkeypatch.setenv("DATABASE_URL", url_of(database))
    with Gateway() as gateway:
        session = gateway.open_session("s")
        assert session.threshold == 9000
        file.write_text("compression: {threshold_tokens: 10000}\n", encoding="utf-8")
        assert gateway.preflight(session).threshold == 10_000


class TestGuards:
    def test_suppress_a_pass_and_the_request_goes(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        hold(database, session, GuardName.COOLDOWN, detail="timeout", hold_ms=600_000)
        answer = gateway.preflight(session, wait=LONG)
        assert (answer.go, answer.over_threshold) == (True, True)
        assert answer.status is Status.SUPPRESSED
        assert answer.suppressed_by is not None
        assert answer.suppressed_by.guard is GuardName.COOLDOWN
        assert 590_000 < answer.suppressed_by.left_ms <= 600_000
        assert "timeout" in answer.reason
        assert batch_jobs(database, session) == []

    def test_do_not_make_a_request_go_that_exceeds_the_window(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        hold(database, session, GuardName.COOLDOWN, hold_ms=600_000)
        answer = gateway.preflight(session, tokens=130_000, wait=LONG)
        assert (answer.go, answer.fits) == (False, False)

    def test_end_by_the_databases_clock(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 5000)
        hold(database, session, GuardName.COOLDOWN, hold_ms=600_000)
        with small_gateway(later(database, 601_000)) as next_day:
            assert next_day.preflight(session).pending

    def test_of_another_summariser_do_not_suppress(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        present = chain_fingerprint(SummariserSettings())
        with database.write() as connection:
            guards.put(
                connection,
                database,
                session.key,
                GuardName.COOLDOWN,
                subject=present,
                hold_ms=600_000,
            )
        assert gateway.preflight(session).suppressed_by is not None
        with database.write() as connection:
            guards.put(
                connection,
                database,
                session.key,
                GuardName.COOLDOWN,
                subject=present + 1,
                hold_ms=600_000,
            )
        assert gateway.preflight(session).pending

    def test_that_the_worker_finds_are_reported_truthfully(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 5000)
        with scripted(database, Ends("suppressed")):
            answer = gateway.preflight(session, wait=LONG)
        assert answer.status is Status.SUPPRESSED
        assert (answer.go, answer.passes) == (True, 0)

    def test_the_main_switch_stops_it(self, database: Database) -> None:
        with small_gateway(database, enabled=False) as gateway:
            session = grown(gateway, 5000)
            answer = gateway.preflight(session, wait=LONG)
        assert answer.go
        assert answer.suppressed_by is not None
        assert answer.suppressed_by.guard is None
        assert "switched off" in answer.reason


class TestTheMessageLimit:
    def test_is_a_reason_of_its_own_that_no_guard_suppresses(self, database: Database) -> None:
        with small_gateway(database, hygiene_hard_message_limit=10) as gateway:
            session = grown(gateway, 500, rows=10)
            hold(database, session, GuardName.COOLDOWN, hold_ms=600_000)
            with scripted(database, compacts(8, 300)) as worker:
                answer = gateway.preflight(session, wait=LONG)
            assert (answer.go, answer.passes) == (True, 1)
            assert [claim.trigger for claim in worker.claims] == ["hygiene_count"]


class TestStuckSessions:
    def test_raise_to_the_caller_that_waited(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 20_000)
        with (
            scripted(database, compacts(5, 1500)),
            pytest.raises(CompressionStuck, match="start a new one") as stuck,
        ):
            gateway.preflight(session, wait=LONG)
        error = stuck.value
        assert (error.session_id, error.threshold) == ("s", THRESHOLD)
        assert error.tokens == live_tokens(database, session)
        assert error.compaction.changed
        assert str(error.sentence) in str(error)
        # Nobody asks again in this turn.
        assert gateway.preflight(session).status is Status.SPENT

    def test_do_not_raise_when_the_request_may_go(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 4400)
        stored = live_tokens(database, session)
        with scripted(database, compacts(2, stored - THRESHOLD + 1)):
            answer = gateway.preflight(session, wait=LONG)
        assert answer.go
        assert answer.stuck


class TestManagedSessions:
    def test_of_codex_are_left_alone(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 5000)
        opened = gateway.open_session("s", managed_by="codex")
        assert opened.managed_by == "codex"
        assert gateway.preflight(session, wait=LONG).status is Status.NOT_NEEDED
        answer = gateway.preflight(session, tokens=5000, wait=LONG)
        assert answer.go
        assert "Codex" in answer.reason
        assert gateway.hygiene(session).status is Status.NOT_NEEDED
        assert batch_jobs(database, session) == []
        # Until they are nobody's again.
        assert gateway.open_session("s").managed_by == "codex"
        assert gateway.open_session("s", managed_by="nobody").managed_by is None
        assert gateway.preflight(session).pending

    def test_of_openai_have_ours_as_a_backstop(self, database: Database) -> None:
        with small_gateway(database, codex_responses_native=True, threshold_tokens=None) as gateway:
            plain = gateway.open_session("a", model="gpt-4o", managed_by="openai")
            assert plain.server_threshold is None
            session = gateway.open_session(
                "b", model="gpt-5.6", context_window=200_000, managed_by="openai"
            )
            assert session.threshold == 150_000
            assert session.server_threshold == 150_000 - 8192
            gateway.finalize_turn(session, [user("word" * 160_000)])
            # What is stored is not what is sent there.
            assert gateway.preflight(session).go
            assert gateway.hygiene(session).status is Status.NOT_NEEDED
            assert gateway.preflight(session, tokens=149_999).go
            assert gateway.preflight(session, tokens=150_000).pending

    def test_are_named_by_a_known_name_only(self, gateway: Gateway, database: Database) -> None:
        before = contents(database)
        with pytest.raises(RequestError, match=r"managed_by: must be one of codex, openai, nobody"):
            gateway.open_session("s", managed_by="claude")
        assert contents(database) == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"wait": -1},
        {"wait": float("nan")},
        {"wait": float("inf")},
        {"wait": "5"},
        {"wait": True},
        {"tokens": -1},
        {"tokens": 10**12},
        {"tokens": 1.5},
        {"tokens": True},
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(
    gateway: Gateway, database: Database, arguments: dict[str, Any]
) -> None:
    session = grown(gateway, 5000)
    before = contents(database)
    with pytest.raises(RequestError) as refused:
        gateway.preflight(session, **arguments)
    assert refused.value.field in arguments
    assert contents(database) == before


def test_no_session_of_another_owner_is_found(database: Database) -> None:
    url = url_of(database)
    with gateway_on(url, owner="ann") as ann, gateway_on(url, owner="bob") as bob:
        bob.open_session("bobs")
        before = contents(database)
        calls: list[Callable[[], object]] = [
            lambda: ann.preflight("bobs", tokens=200_000, wait=SHORT),
            lambda: ann.hygiene("bobs"),
            lambda: ann.report_error("bobs", {"status": 413, "message": "too large"}),
            lambda: ann.report_error("bobs", {"status": 401}),
            lambda: ann.compact("bobs"),
            lambda: ann.request_compaction("bobs"),
            lambda: ann.signals("bobs"),
        ]
        for call in calls:
            with pytest.raises(SessionNotFound, match="owner 'ann'"):
                call()
        assert contents(database) == before


def test_the_learned_calibration_counts(gateway: Gateway, database: Database) -> None:
    session = grown(gateway, 3500)
    learned = (
        '{"additive": 1000, "ratio": 1.0, "samples": 1, "doubt": [1.0, 0.0, 1.0], "strays": 0}'
    )
    with database.write() as connection:
        sessions.calibrate(connection, session.key, learned)
    answer = gateway.preflight(session)
    assert answer.tokens == live_tokens(database, session) + 1000
    assert answer.pending


def test_a_window_that_the_provider_stated_counts(gateway: Gateway, database: Database) -> None:
    session = grown(gateway, 3500)
    assert replace(session, system_prompt=None).threshold == THRESHOLD
    with database.write() as connection:
        sessions.declare_window(connection, session.key, 4000)
    answer = gateway.preflight(session)
    assert (answer.threshold, answer.window) == (3400, 4000)
    assert gateway.open_session("s").threshold == 3400
