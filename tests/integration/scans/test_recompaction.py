"""Bulk re-compaction: each session once, whatever interrupts it, and never in the way of others."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from storage import audit, bulk_runs, jobs
from storage.audit import Which
from storage.bulk_runs import Filters, Progress, Run, RunState, Tally
from storage.conversations import sessions
from storage.engine import Database
from storage.jobs import JobKind
from storage.models import BULK_QUEUE
from tests.support.observing.interrupting import Interrupting
from tests.support.sessions.gateways import rows_of, url_of
from tests.support.sessions.stored_session import StoredSession, later
from tests.support.workers.workplace import DESK, Killed, desk
from workers.policy.triggers import Trigger
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Worked, work_next
from workers.scans import recompaction
from workers.scans.recompaction import RunStateError, refill
from workers.scans.reconcile import reconcile
from workers.settings import CompressionSettings, Settings, SettingsSource, WorkerSettings
from workers.summariser.contract import ErrorClass, Reply, SummariserError, SummaryRequest
from workers.summariser.extractive.local import LocalSummariser

WHO = "ada@host (command line)"


def context_on(database: Database, summariser: Any = None, **worker: Any) -> WorkerContext:
    settings = Settings(
        database_url=url_of(database),
        compression=CompressionSettings(**DESK),
        worker=WorkerSettings(**worker),
    )
    return WorkerContext(database, SettingsSource.fixed(settings), summariser or LocalSummariser())


def sessions_of(database: Database, count: int, **facts: Any) -> list[StoredSession]:
    return [desk(database, session_id=f"old-{number}", **facts) for number in range(count)]


def begin(database: Database, at_once: int = 2, pace_ms: int = 0, **filters: Any) -> Run:
    with database.write() as connection:
        return bulk_runs.create(
            connection,
            database,
            Filters(**filters),
            owner="o",
            actor=WHO,
            at_once=at_once,
            pace_ms=pace_ms,
        )


def tally(database: Database, run: Run) -> Tally:
    with database.read() as connection:
        return bulk_runs.tally(connection, run.id)


def state(database: Database, run: Run) -> RunState:
    with database.read() as connection:
        return bulk_runs.fetch(connection, run.id).state


def work_off(context: WorkerContext) -> None:
    """Do what a worker and its reconciler do until nothing is due."""
    while due := reconcile(context):
        notifications = list(due)
        while notifications:
            done = work_next(context, notifications.pop(0).id)
            if isinstance(done, Worked):
                notifications.extend(done.due)


def bulk_passes(database: Database) -> dict[int, int]:
    """Return how often each session was compacted by bulk work."""
    return dict(
        rows_of(
            database,
            "SELECT session_key, count(*) FROM attempts"
            " WHERE \"trigger\" = 'recompact' AND outcome = 'compacted' GROUP BY session_key",
        )
    )


def actions(database: Database) -> list[str]:
    with database.read() as connection:
        found = audit.page(connection, Which())
    return [one.action for one in found if one.action.startswith("bulk")][::-1]


def test_every_session_that_matches_is_compacted_once_and_the_run_ends(database: Database) -> None:
    old = sessions_of(database, 5)
    desk(database, session_id="other", owner="somebody else")
    run = begin(database)
    assert run.sessions == 5
    work_off(context_on(database))
    assert state(database, run) is RunState.DONE
    done = tally(database, run)
    assert done.outcomes == {"compacted": 5}
    assert done.tokens_saved > 5 * 1000
    assert done.tokens_after == sum(one.record().live_tokens for one in old)
    assert bulk_passes(database) == {one.key: 1 for one in old}
    assert actions(database) == ["bulk_ended"]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"sources": ("telegram",)}, {"a"}),
        ({"above_tokens": 4000}, {"a", "b"}),
        ({"title": "VENUE"}, {"b"}),
        ({"title": "100%"}, set()),
        ({"older_ms": 60_000}, {"b"}),
        ({"older_ms": 60_000, "sources": ("telegram",)}, set()),
    ],
)
def test_filters_choose_sessions_and_all_of_them_hold(
    database: Database, filters: dict[str, Any], kept: set[str]
) -> None:
    desk(database, session_id="a", source="telegram")
    old = desk(database, session_id="b", title="The venue")
    desk(database, session_id="c", turns=2)
    with database.write() as connection:
        connection.exec_driver_sql(
            f'UPDATE sessions SET active_at = active_at - 120000 WHERE "key" = {old.key}'
        )
    run = begin(database, **filters)
    found = rows_of(
        database,
        'SELECT id FROM sessions JOIN bulk_sessions ON session_key = "key"'
        f" WHERE run_id = {run.id}",
    )
    assert {row[0] for row in found} == kept


def test_no_more_are_under_way_than_the_run_allows(database: Database) -> None:
    sessions_of(database, 6)
    run = begin(database, at_once=2)
    for _ in range(3):
        refill(database, actor=WHO)
    assert tally(database, run).asked == 2


def test_a_pace_is_kept_whichever_process_refills(database: Database) -> None:
    sessions_of(database, 6)
    run = begin(database, at_once=6, pace_ms=20_000)
    refill(database, actor=WHO)
    assert tally(database, run).asked == 1
    refill(later(database, 9_000), actor=WHO)
    assert tally(database, run).asked == 1
    refill(later(database, 10_500), actor=WHO)
    assert tally(database, run).asked == 2
    # What was missed is caught up for ten seconds at the most.
    refill(later(database, 3_600_000), actor=WHO)
    assert tally(database, run).asked == 3


def test_a_second_run_is_refused_while_one_is_under_way(database: Database) -> None:
    sessions_of(database, 1)
    run = begin(database)
    with pytest.raises(IntegrityError):
        begin(database)
    recompaction.stop(database, run.id, actor=WHO)
    begin(database)
    with pytest.raises(RunStateError, match="under way"):
        recompaction.resume(database, run.id, actor=WHO)


def test_stopping_takes_back_what_nobody_has_begun_and_resuming_does_the_rest(
    database: Database,
) -> None:
    old = sessions_of(database, 4)
    context = context_on(database)
    run = begin(database, at_once=2)
    first, *_ = reconcile(context)
    assert isinstance(work_next(context, first.id), Worked)
    recompaction.stop(database, run.id, actor=WHO)
    stopped = tally(database, run)
    assert (stopped.settled, stopped.asked, stopped.waiting) == (1, 0, 3)
    work_off(context)
    assert sum(bulk_passes(database).values()) == 1
    with pytest.raises(RunStateError, match="stopped"):
        recompaction.stop(database, run.id, actor=WHO)
    recompaction.resume(database, run.id, actor=WHO)
    work_off(context)
    assert state(database, run) is RunState.DONE
    assert bulk_passes(database) == {one.key: 1 for one in old}
    assert actions(database) == ["bulk_stopped", "bulk_resumed", "bulk_ended"]


def play(database: Database, run: Run) -> None:
    """Play a whole run with a stop and a resumption in its middle."""
    context = context_on(database)
    for due in reconcile(context):
        work_next(context, due.id)
    if state(database, run) is RunState.RUNNING:
        recompaction.stop(database, run.id, actor=WHO)
    if state(database, run) is RunState.STOPPED:
        recompaction.resume(database, run.id, actor=WHO)
    work_off(context)


POINTS = 87
"""At how many points such a run may be broken off; a few more where a database sees more."""


def test_the_points_at_which_a_run_is_broken_off_reach_to_its_end(database: Database) -> None:
    whole = Interrupting.of(database, 10**9)
    sessions_of(database, 3)
    play(whole, begin(database))
    assert POINTS <= whole.fuse.points <= POINTS + 4


@pytest.mark.parametrize("point", range(1, POINTS + 1, 3))
def test_a_run_that_is_broken_off_anywhere_does_every_session_once(
    database: Database, point: int
) -> None:
    old = sessions_of(database, 3)
    run = begin(database)
    broken = Interrupting.of(database, point)
    with suppress(Killed):
        play(broken, run)
    # Later, when the leases of what was killed have ended.
    after = later(database, 120_000)
    play(after, run)
    done = tally(after, run)
    assert state(after, run) is RunState.DONE
    assert (done.settled, done.asked, done.waiting) == (3, 0, 0)
    assert done.outcomes == {"compacted": 3}
    assert bulk_passes(after) == {one.key: 1 for one in old}
    for one in old:
        assert one.counted() == one.live_rows()
    assert rows_of(after, "SELECT DISTINCT state FROM jobs") == [("done",)]


class Down:
    """A summariser whose endpoint refuses everybody."""

    model = "m"
    fingerprint = 7

    def room(self, summary_tokens: int) -> int:
        return 100_000

    def summarise(self, request: SummaryRequest, stop: Any) -> Reply:
        raise SummariserError(ErrorClass.AUTH, "refused")

    def close(self) -> None:
        pass


def test_a_model_that_fails_leaves_sessions_as_they_are_and_they_can_be_tried_again(
    database: Database,
) -> None:
    old = sessions_of(database, 2)
    before = [one.counted() for one in old]
    run = begin(database)
    work_off(context_on(database, Down()))
    assert tally(database, run).outcomes == {"failed": 2}
    assert [one.counted() for one in old] == before
    with pytest.raises(RunStateError, match="done"):
        recompaction.resume(database, run.id, actor=WHO)
    # The cooldown is that of another summariser.
    assert recompaction.resume(database, run.id, actor=WHO, again=["failed"]) == 2
    work_off(context_on(database))
    assert tally(database, run).outcomes == {"compacted": 2}


def test_a_job_that_is_open_already_serves_the_run_too(database: Database) -> None:
    (old,) = sessions_of(database, 1)
    live = old.enqueue(JobKind.BATCH, queue="batch", trigger=Trigger.MANUAL, priority=70)
    run = begin(database)
    refill(database, actor=WHO)
    assert rows_of(database, "SELECT job_id FROM bulk_sessions") == [(live.id,)]
    assert rows_of(database, "SELECT queue FROM jobs") == [("batch",)]
    work_off(context_on(database))
    assert tally(database, run).outcomes == {"compacted": 1}


def test_a_session_that_goes_away_meanwhile_keeps_nobody_waiting(database: Database) -> None:
    first, second = sessions_of(database, 2)
    run = begin(database)
    with database.write() as connection:
        connection.exec_driver_sql(f"DELETE FROM messages WHERE session_key = {first.key}")
        connection.exec_driver_sql(f'DELETE FROM sessions WHERE "key" = {first.key}')
    work_off(context_on(database))
    assert state(database, run) is RunState.DONE
    assert list(bulk_passes(database)) == [second.key]


def test_live_work_of_a_session_goes_before_bulk_work(database: Database) -> None:
    (old,) = sessions_of(database, 1)
    begin(database)
    refill(database, actor=WHO)
    with database.write() as connection:
        sessions.lock(connection, old.key)
        jobs.enqueue(
            connection,
            database,
            old.key,
            kind=JobKind.BATCH,
            queue="batch",
            trigger=Trigger.PREFLIGHT,
            priority=20,
        )
    assert rows_of(database, 'SELECT queue, "trigger" FROM jobs') == [("batch", "preflight")]
    assert BULK_QUEUE != "batch"
    assert Progress.ASKED.value == rows_of(database, "SELECT state FROM bulk_sessions")[0][0]
