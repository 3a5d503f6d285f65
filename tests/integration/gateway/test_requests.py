"""Compaction through the gateway, by a plugin and by a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from producers import CompressionStuck, Gateway, RequestError, Status
from storage import jobs
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import JobKind, JobState
from tests.support.sessions.gateways import contents, rows_of, user
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
from tests.support.workers.scripted_worker import Ends, ScriptedWorker, Waits, compacts, scripted

SMALL_WINDOW = {"threshold_tokens": None}


@pytest.fixture
def gateway(database: Database) -> Iterator[Gateway]:
    with small_gateway(database) as opened:
        yield opened


class TestHygiene:
    def test_leaves_a_session_alone_that_is_not_far_too_large(
        self, gateway: Gateway, database: Database
    ) -> None:
        # Over its threshold, but far below 85 % of its window.
        session = grown(gateway, 2 * THRESHOLD)
        before = contents(database)
        done = gateway.hygiene(session, wait=LONG)
        assert done.status is Status.NOT_NEEDED
        assert "below its limits" in done.reason
        assert contents(database) == before

    def test_compacts_one_that_fills_its_window(self, database: Database) -> None:
        with small_gateway(database, threshold_tokens=None) as gateway:
            session = grown(gateway, 12_000)
            # The threshold of this window lies at 85 % of it too.
            gateway.set_model(session, "small", context_window=13_000)
            with scripted(database, compacts(5, 8000)) as worker:
                done = gateway.hygiene(session, wait=LONG)
        assert (done.status, done.passes, done.smaller) == (Status.CHANGED, 1, True)
        assert [claim.trigger for claim in worker.claims] == ["hygiene_tokens"]

    def test_honours_cooldown_but_not_anti_thrash(self, database: Database) -> None:
        with small_gateway(database, threshold_tokens=None) as gateway:
            session = grown(gateway, 12_000)
            gateway.set_model(session, "small", context_window=13_000)
            hold(database, session, GuardName.POOR_PASSES, count=2, hold_ms=300_000)
            assert gateway.hygiene(session).status is Status.PENDING
            hold(database, session, GuardName.COOLDOWN, hold_ms=300_000)
            # A guard that is set later does not call a job back: its worker will see.
            assert gateway.hygiene(session).status is Status.SUPPRESSED

    def test_by_count_asks_past_every_guard_and_takes_the_session_from_a_micro_job(
        self, database: Database
    ) -> None:
        with small_gateway(database, hygiene_hard_message_limit=10) as gateway:
            session = grown(gateway, 500, rows=10)
            hold(database, session, GuardName.COOLDOWN, hold_ms=300_000)
            with database.write() as connection:
                micro = jobs.enqueue(
                    connection,
                    database,
                    session.key,
                    kind=JobKind.MICRO,
                    queue="micro",
                    trigger="micro",
                )
                claimed = jobs.claim(
                    connection,
                    database,
                    micro.id,
                    lease_owner="h",
                    lease_ms=60_000,
                    deadline_ms=60_000,
                )
            assert claimed is not None
            with scripted(database, compacts(8, 300)) as worker:
                done = gateway.hygiene(session, wait=LONG)
        assert done.messages_after == 2
        assert [claim.trigger for claim in worker.claims] == ["hygiene_count"]
        (state, fence) = rows_of(database, "SELECT state, fence FROM jobs WHERE kind = 'micro'")[0]
        assert (state, fence) == ("due", claimed.fence + 1)

    def test_by_count_stops_with_the_main_switch(self, database: Database) -> None:
        with small_gateway(database, hygiene_hard_message_limit=10, enabled=False) as gateway:
            session = grown(gateway, 500, rows=10)
            assert gateway.hygiene(session).status is Status.SUPPRESSED
        assert batch_jobs(database, session) == []

    def test_asks_for_one_pass_a_call_and_joins_one_that_runs(self, database: Database) -> None:
        with small_gateway(database, threshold_tokens=None) as gateway:
            session = grown(gateway, 12_000)
            gateway.set_model(session, "small", context_window=13_000)
            assert gateway.hygiene(session).pending
            (job,) = batch_jobs(database, session)
            worker = ScriptedWorker(database, [])
            claim = worker.claim(job.id)
            assert claim is not None
            assert gateway.hygiene(session, wait=SHORT).status is Status.PENDING
            worker.end(claim, compacts(2, 2000))
        (job,) = batch_jobs(database, session)
        assert job.state is JobState.DONE

    def test_raises_where_a_session_stays_over_its_threshold(self, database: Database) -> None:
        with small_gateway(database, threshold_tokens=None) as gateway:
            session = grown(gateway, 12_000)
            gateway.set_model(session, "small", context_window=13_000)
            with scripted(database, compacts(1, 100)), pytest.raises(CompressionStuck):
                gateway.hygiene(session, wait=LONG)


class TestAPerson:
    def test_is_answered_whatever_the_size_the_guards_and_the_main_switch(
        self, database: Database
    ) -> None:
        with small_gateway(database, enabled=False) as gateway:
            session = grown(gateway, 500)
            hold(database, session, GuardName.COOLDOWN, hold_ms=600_000)
            hold(database, session, GuardName.POOR_PASSES, count=3, hold_ms=300_000)
            with scripted(database, compacts(6, 300)) as worker:
                done = gateway.compact(session, wait=LONG)
        assert (done.status, done.changed, done.messages_after) == (Status.CHANGED, True, 4)
        (claim,) = worker.claims
        assert (claim.trigger, claim.options) == ("manual", {})
        assert guard(database, session, GuardName.COOLDOWN) is None
        assert guard(database, session, GuardName.POOR_PASSES) is None

    @pytest.mark.parametrize(
        ("given", "options"),
        [
            ({"focus": "the  refund\nrules"}, {"focus": "the refund rules"}),
            ({"focus": "   "}, {}),
            ({"focus": "x " * 10_000}, {"focus": "x " * 249 + "x"}),
            ({"keep_last": 2}, {"keep_last": 2}),
            ({"up_to": 0}, {"up_to": 0}),
            ({"around": 9, "focus": "a"}, {"around": 9, "focus": "a"}),
        ],
    )
    def test_says_what_and_which_part(
        self, gateway: Gateway, database: Database, given: Any, options: Any
    ) -> None:
        session = grown(gateway, 500)
        gateway.compact(session, **given)
        (job,) = batch_jobs(database, session)
        assert job.options == options

    def test_may_have_a_secret_in_the_focus_that_is_not_stored(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 500)
        secret = "sk-proj-" + "Ab3dEf6h" * 6
        gateway.compact(session, focus=f"{'word ' * 95}key {secret}")
        (job,) = batch_jobs(database, session)
        assert "[REDACTED]" in job.options["focus"]
        assert secret[:12] not in str(contents(database)["jobs"])

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"keep_last": 0}, "keep_last"),
            ({"keep_last": "2"}, "keep_last"),
            ({"keep_last": True}, "keep_last"),
            ({"up_to": -1}, "up_to"),
            ({"up_to": 10}, "up_to"),
            ({"around": 10**9}, "around"),
            ({"around": 1.5}, "around"),
            ({"around": 1, "up_to": 2}, "up_to"),
            ({"keep_last": 1, "around": 2}, "around"),
            ({"focus": 3}, "focus"),
            ({"wait": -1}, "wait"),
        ],
    )
    def test_is_refused_what_cannot_be_meant_and_nothing_is_changed(
        self, gateway: Gateway, database: Database, given: Any, field: str
    ) -> None:
        session = grown(gateway, 500)
        hold(database, session, GuardName.COOLDOWN, hold_ms=600_000)
        before = contents(database)
        with pytest.raises(RequestError) as refused:
            gateway.compact(session, **given)
        assert refused.value.field == field
        assert str(refused.value).startswith(f"{field}: ")
        assert contents(database) == before

    def test_learns_that_there_is_nothing_yet(self, gateway: Gateway) -> None:
        session = gateway.open_session("s")
        with pytest.raises(RequestError, match="holds no messages yet"):
            gateway.compact(session, up_to=0)

    def test_waits_for_the_own_pass_after_one_that_runs(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 20_000)
        gateway.preflight(session)
        (job,) = batch_jobs(database, session)
        worker = ScriptedWorker(database, [compacts(3, 4000)])
        running = worker.claim(job.id)
        assert running is not None
        assert gateway.compact(session, focus="a", wait=SHORT).status is Status.PENDING
        worker.end(running, compacts(3, 4000))
        assert worker.work_one()
        assert [claim.trigger for claim in worker.claims] == ["preflight", "manual"]
        assert worker.claims[-1].options == {"focus": "a"}

    def test_asks_again_for_the_same_without_a_second_pass(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 500)
        assert gateway.compact(session, keep_last=2).pending
        (job,) = batch_jobs(database, session)
        worker = ScriptedWorker(database, [])
        claim = worker.claim(job.id)
        assert claim is not None
        assert gateway.compact(session, keep_last=2, wait=SHORT).pending
        worker.end(claim, compacts(5, 300))
        (job,) = batch_jobs(database, session)
        assert job.state is JobState.DONE

    def test_is_raised_to_when_nearly_everything_is_left(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 500)
        with scripted(database, compacts(2, 10)), pytest.raises(CompressionStuck) as stuck:
            gateway.compact(session, wait=LONG)
        assert stuck.value.compaction.smaller
        # Of a part that was asked for little is to be expected.
        with scripted(database, compacts(2, 10)):
            assert gateway.compact(session, keep_last=4, wait=LONG).stuck

    def test_learns_of_a_pass_that_waits(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 500)
        with scripted(database, Waits(60_000)):
            done = gateway.compact(session, wait=LONG)
        assert done.status is Status.POSTPONED
        assert "the pass waits for 60 s after server_error" in done.reason


class TestAPlugin:
    def test_gets_one_pass_a_turn_below_the_threshold_too(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 500)
        with scripted(database, compacts(6, 300)) as worker:
            done = gateway.request_compaction(session, wait=LONG)
            assert done.status is Status.CHANGED
            again = gateway.request_compaction(session, wait=LONG)
            assert again.status is Status.SPENT
        assert [claim.trigger for claim in worker.claims] == ["engine"]
        gateway.finalize_turn(session, [user("next")])
        assert gateway.request_compaction(session).pending

    def test_may_ask_again_for_one_that_is_pending(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 500)
        assert gateway.request_compaction(session).status is Status.PENDING
        with scripted(database, compacts(6, 300), late_seconds=0.2):
            assert gateway.request_compaction(session, wait=LONG).changed

    def test_is_suppressed_by_guards_without_using_its_turn_up(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 500)
        hold(database, session, GuardName.POOR_PASSES, count=2, hold_ms=300_000)
        held = gateway.request_compaction(session)
        assert held.status is Status.SUPPRESSED
        assert 290_000 < held.left_ms <= 300_000
        assert guard(database, session, GuardName.ENGINE_REQUEST) is None

    def test_learns_that_nothing_could_be_done(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 500)
        stored = live_tokens(database, session)
        with scripted(database, Ends("nothing_due")):
            done = gateway.request_compaction(session, wait=LONG)
        assert (done.status, done.passes, done.changed) == (Status.UNCHANGED, 1, False)
        assert (done.tokens_before, done.tokens_after) == (stored, stored)
