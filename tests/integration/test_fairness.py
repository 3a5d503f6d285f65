"""Owners are served in turn, whoever has more due."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text as sql

from storage import jobs
from storage.engine import Database
from storage.jobs import DueJob, JobKind
from tests.counting import counted
from tests.gateways import migrated, url_of
from tests.stored_jobs import LEASE_MS, Worker
from tests.stored_session import StoredSession
from workers.runtime.context import Workshop
from workers.runtime.jobs import Crashed, NotClaimed, Worked, work_next
from workers.settings import Settings, SettingsSource
from workers.summariser.extractive.local import LocalSummariser

pytestmark = pytest.mark.both_databases

MINUTE = 60_000
MANY = 10_000

NUMBERS = (
    "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {})"
)


@pytest.fixture
def shop(database: Database) -> Workshop:
    return shop_on(database)


@pytest.fixture
def crowded(database_url: str) -> Iterator[Workshop]:
    """A workshop on a database of its own: emptying a large one takes longer than making one."""
    with migrated(database_url) as database:
        yield shop_on(database)


def shop_on(database: Database) -> Workshop:
    settings = Settings(database_url=url_of(database))
    return Workshop(database, SettingsSource.fixed(settings), LocalSummariser())


def make_due(
    database: Database, owner: str, count: int, *, rung: bool = True, kind: str = "micro"
) -> list[int]:
    """That many sessions of an owner, each with a job that is due; gives the jobs' ids."""
    with database.write() as connection:
        connection.execute(
            sql(
                "INSERT INTO sessions (owner, id, source, started_at, active_at)"
                f" {NUMBERS.format(count)} SELECT :owner, 's' || n, 'cli', 1, 1 FROM numbers"
            ),
            {"owner": owner},
        )
        return list(
            connection.execute(
                sql(
                    "INSERT INTO jobs (session_key, owner, kind, queue, trigger, run_at, rung_at,"
                    " created_at, updated_at) SELECT \"key\", owner, :kind, 'turns', 'turn',"
                    f' "key", {2 if rung else "NULL"}, 1, 1 FROM sessions WHERE owner = :owner'
                    ' ORDER BY "key" RETURNING id'
                ),
                {"owner": owner, "kind": kind},
            ).scalars()
        )


def owner_of(database: Database, job_id: int) -> str:
    with database.read() as connection:
        query = sql("SELECT owner FROM jobs WHERE id = :id")
        return str(connection.execute(query, {"id": job_id}).scalar_one())


def only_session(database: Database) -> StoredSession:
    with database.read() as connection:
        key = connection.execute(sql('SELECT "key" FROM sessions')).scalar_one()
    return StoredSession(database, key)


def worked(shop: Workshop, ring: int) -> Worked:
    match work_next(shop, ring):
        case Worked() as done:
            return done
        case Crashed(error):
            raise error
        case NotClaimed():
            raise AssertionError("a ring for a due job came to nothing")


def test_five_sessions_are_done_within_a_few_claims_though_ten_thousand_came_before(
    crowded: Workshop,
) -> None:
    rings = make_due(crowded.database, "a", MANY)
    few = make_due(crowded.database, "b", 5)
    done = [worked(crowded, ring) for ring in rings[:12]]
    assert {one.job_id for one in done} >= set(few)


def test_what_a_claim_costs_does_not_grow_with_what_is_due(crowded: Workshop) -> None:
    make_due(crowded.database, "a", 10)
    rings = make_due(crowded.database, "b", 10)
    worked(crowded, rings[0])
    with counted(crowded.database) as before:
        worked(crowded, rings[1])
    make_due(crowded.database, "c", MANY)
    make_due(crowded.database, "d", 10)
    worked(crowded, rings[2])
    with counted(crowded.database) as after:
        worked(crowded, rings[3])
    assert after.statements == before.statements
    assert after.rows_written == before.rows_written


def test_every_owner_gets_a_turn_before_one_gets_another(shop: Workshop) -> None:
    of = {owner: make_due(shop.database, owner, 10) for owner in ("a", "ä", "b", "z", "北")}
    order = [owner_of(shop.database, worked(shop, ring).job_id) for ring in of["z"]]
    assert [set(order[n : n + 5]) for n in (0, 5)] == [set(of)] * 2


def test_the_rung_job_is_rung_again_where_another_was_worked(shop: Workshop) -> None:
    mine, other = make_due(shop.database, "a", 1), make_due(shop.database, "b", 1)
    first = worked(shop, other[0])
    assert first.job_id == mine[0]
    assert first.session == "s0"
    assert [due.id for due in first.due] == other
    second = worked(shop, other[0])
    assert (second.job_id, second.due) == (other[0], ())
    # The ring of what was worked in between comes to nothing.
    assert work_next(shop, mine[0]) == NotClaimed()


def test_the_rung_job_itself_is_worked_where_its_owner_has_the_turn(shop: Workshop) -> None:
    rings = make_due(shop.database, "a", 3)
    assert [worked(shop, ring).job_id for ring in (rings[2], rings[0])] == [rings[2], rings[0]]


def test_an_owners_stronger_job_goes_before_the_rung_one(
    database: Database, shop: Workshop
) -> None:
    rings = make_due(database, "a", 3)
    with database.write() as connection:
        connection.execute(sql(f"UPDATE jobs SET strength = 70 WHERE id = {rings[2]}"))
    done = worked(shop, rings[0])
    assert done.job_id == rings[2]
    assert [due.id for due in done.due] == [rings[0]]


def test_of_another_owner_the_strongest_goes_first_and_then_what_waits_longest(
    database: Database, shop: Workshop
) -> None:
    mine, theirs = make_due(database, "b", 3), make_due(database, "a", 3)
    with database.write() as connection:
        connection.execute(sql(f"UPDATE jobs SET strength = 5 WHERE id = {theirs[2]}"))
    assert worked(shop, mine[0]).job_id == theirs[2]
    assert worked(shop, mine[0]).job_id == mine[0]
    assert worked(shop, mine[1]).job_id == theirs[0]


def test_a_job_whose_session_is_being_worked_on_takes_nobodys_turn(
    database: Database, shop: Workshop
) -> None:
    busy = make_due(database, "a", 1)
    Worker(database).take(only_session(database).make_due(JobKind.BATCH))
    mine = make_due(database, "b", 2)
    assert [worked(shop, ring).job_id for ring in mine] == mine
    assert work_next(shop, busy[0]) == NotClaimed()


def test_jobs_that_nobody_was_rung_for_yet_wait_for_their_ring(
    database: Database, shop: Workshop
) -> None:
    make_due(database, "a", 3, rung=False)
    mine = make_due(database, "b", 1)
    assert worked(shop, mine[0]).job_id == mine[0]


def test_a_job_of_an_older_version_is_worked_when_it_is_rung_for(
    database: Database, shop: Workshop
) -> None:
    mine, others = make_due(database, "b", 1), make_due(database, "a", 3)
    with database.write() as connection:
        connection.execute(sql(f"UPDATE jobs SET owner = NULL WHERE id = {mine[0]}"))
    assert worked(shop, mine[0]).job_id == mine[0]
    assert worked(shop, others[0]).job_id == others[0]


def test_queues_have_turns_of_their_own(database: Database, shop: Workshop) -> None:
    rings = {owner: make_due(database, owner, 2) for owner in ("a", "b")}
    with database.write() as connection:
        for of in rings.values():
            connection.execute(sql(f"UPDATE jobs SET queue = 'batch' WHERE id = {of[1]}"))
    assert worked(shop, rings["a"][0]).job_id == rings["a"][0]
    assert worked(shop, rings["b"][1]).job_id == rings["a"][1]


def test_a_job_is_its_sessions_owners(database: Database) -> None:
    session = StoredSession.create(database, owner="北京")
    due = session.make_due(ringing=True)
    with database.read() as connection:
        first = jobs.in_turn(connection, due.queue, after=None)
    assert first is not None
    assert (first.job, first.owner) == (due, "北京")


def test_a_job_that_waits_for_its_time_takes_nobodys_turn(database: Database) -> None:
    worker, session = Worker(database), StoredSession.create(database)
    due = session.make_due(ringing=True)
    worker.release(worker.take(due), delay_ms=MINUTE)
    with database.read() as connection:
        assert jobs.in_turn(connection, due.queue, after=None) is None
        assert jobs.rung(connection, database, due.id) is None
    assert [job.id for job in worker.after(MINUTE).ring()] == [due.id]
    with database.read() as connection:
        first = jobs.in_turn(connection, due.queue, after=None)
    assert first is not None
    assert first.owner == "o"


def test_a_ring_counts_until_the_job_is_rung_for_in_another_queue(database: Database) -> None:
    worker, session = Worker(database), StoredSession.create(database)
    session.make_due(ringing=True)
    session.make_due()
    assert worker.ring() == []
    moved: DueJob = session.make_due(strength=5, queue="another")
    assert worker.ring() == [moved]


def test_a_silent_workers_job_does_not_keep_its_owner_from_his_turn_for_ever(
    database: Database, shop: Workshop
) -> None:
    make_due(database, "a", 1)
    Worker(database).take(only_session(database).make_due(JobKind.BATCH))
    later = Worker(database).after(LEASE_MS + 1)
    assert later.rescue() == 1
    with database.read() as connection:
        first = jobs.in_turn(connection, "turns", after=None)
    assert first is not None
    assert first.owner == "a"
