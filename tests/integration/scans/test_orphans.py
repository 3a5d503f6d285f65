"""Whatever is due and has no job gets one, also what a cooldown suppressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text as sql

from storage import jobs
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import JobKind, dead_jobs
from storage.outcomes import Outcome
from tests.support.model.behaviours import Good, Status
from tests.support.model.server import ModelServer
from tests.support.observing.counting import counted
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.decisions import SMALL, Case
from tests.support.sessions.gateways import rows_of, url_of
from tests.support.sessions.play import Play, playing
from tests.support.sessions.stored_session import later
from tests.support.workers.workplace import Workplace, desk
from workers.policy.triggers import Trigger
from workers.scans.orphans import COOLDOWN_OVER, ORPHANED, Orphans, recover_orphans
from workers.scans.retention import delete_expired

pytestmark = pytest.mark.both_databases

MINUTE = 60_000
DAY = 86_400_000


@pytest.fixture
def play(database: Database) -> Iterator[Play]:
    with playing(url_of(database), **SMALL) as playing_now:
        yield playing_now


def forget_jobs(database: Database, where: str = "1 = 1") -> None:
    with database.write() as connection:
        connection.execute(sql(f"DELETE FROM jobs WHERE {where}"))


def open_jobs(database: Database) -> dict[str, str]:
    query = "SELECT kind, trigger FROM jobs WHERE state IN ('due', 'running')"
    with database.read() as connection:
        return {row.kind: row.trigger for row in connection.execute(sql(query))}


def give_up(play: Play, kind: JobKind) -> None:
    """Let the session's job of this kind be dead, as one that crashes at every try."""
    with play.database.write() as connection:
        connection.execute(
            sql(
                "UPDATE jobs SET state = 'dead', failed_first_at = updated_at,"
                " failed_last_at = updated_at + 1000 WHERE kind = :kind AND state = 'due'"
            ),
            {"kind": kind},
        )


def drop_all(database: Database) -> None:
    with database.write() as connection:
        dead = dead_jobs.page(connection, limit=100)
        assert dead_jobs.drop(connection, database, [one.id for one in dead])


class TestTurns:
    def test_that_were_never_decided_about_get_a_job(self, play: Play) -> None:
        case = Case(play)
        case.say(12)
        forget_jobs(play.database)
        assert recover_orphans(play.context) == Orphans(undecided=1)
        assert open_jobs(play.database) == {"turn": ORPHANED}
        assert case.decide() == {"micro": "micro"}
        assert recover_orphans(play.context) == Orphans()

    def test_that_have_a_job_are_left_to_it(self, play: Play) -> None:
        case = Case(play)
        case.say(12)
        assert recover_orphans(play.context) == Orphans()
        assert open_jobs(play.database) == {"turn": "turn"}
        case.decide()
        assert recover_orphans(play.context) == Orphans()

    def test_whose_job_was_given_up_are_left_alone_until_there_is_another_turn(
        self, play: Play
    ) -> None:
        case = Case(play)
        case.say()
        give_up(play, JobKind.TURN)
        assert recover_orphans(play.context) == Orphans()
        # An operator who throws it away does not want it back either, however long ago it was.
        drop_all(play.database)
        assert recover_orphans(play.context) == Orphans()
        assert (
            delete_expired(replace(play.context, database=later(play.database, 365 * DAY))).jobs
            == 0
        )
        assert recover_orphans(play.context) == Orphans()
        with play.database.write() as connection:
            connection.execute(sql("UPDATE jobs SET failed_last_at = failed_first_at - 60000"))
        assert recover_orphans(play.context) == Orphans(undecided=1)

    def test_of_before_the_upgrade_count_as_decided(self, play: Play) -> None:
        case = Case(play)
        case.say(3)
        forget_jobs(play.database)
        with play.database.write() as connection:
            connection.execute(sql("UPDATE sessions SET decided_turns = NULL"))
        assert recover_orphans(play.context) == Orphans()
        case.say()
        forget_jobs(play.database)
        assert recover_orphans(play.context) == Orphans(undecided=1)

    def test_that_come_while_it_is_decided_are_not_taken_for_decided(
        self, database: Database
    ) -> None:
        def speak(point: str) -> None:
            if point == "decided":
                case.say()

        with playing(url_of(database), failpoint=speak, **SMALL) as play:
            case = Case(play)
            case.say()
            case.decide()
            forget_jobs(database)
            assert recover_orphans(play.context) == Orphans(undecided=1)

    def test_that_are_open_get_a_job_for_what_was_reported_of_them(self, play: Play) -> None:
        case = Case(play)
        case.say(12)
        case.decide()
        forget_jobs(play.database)
        case.gateway.append(case.session, [user("and now?")])
        assert recover_orphans(play.context) == Orphans()
        usage = {"prompt_tokens": 150_000}
        for _ in range(2):
            case.gateway.append(case.session, [assistant("wait")], usage=usage)
        forget_jobs(play.database)
        assert recover_orphans(play.context) == Orphans(undecided=1)
        assert case.decide() == {"batch": "after_response"}
        forget_jobs(play.database)
        assert recover_orphans(play.context) == Orphans()


class TestPlaceholders:
    def use_placeholder(self, place: Workplace, model: ModelServer) -> None:
        """Let a pass fail, so that a placeholder is shown."""
        model.always(Status(401))
        place.ask(Trigger.AFTER_RESPONSE)
        place.work()
        job = place.job()
        assert job is not None
        assert job.trigger == Trigger.REPLACE_PLACEHOLDER

    def test_without_a_replacement_job_get_one(
        self, database: Database, model: ModelServer
    ) -> None:
        with Workplace(desk(database), model.base_url) as place:
            self.use_placeholder(place, model)
            with place.process() as context:
                assert recover_orphans(context).placeholders == 0
                forget_jobs(database, "kind = 'batch'")
                assert recover_orphans(context).placeholders == 1
                assert recover_orphans(context).placeholders == 0
            model.always(Good())
            place.work_off()
            assert place.job() is None
            forget_jobs(database)
            with place.process() as context:
                assert recover_orphans(context).placeholders == 0

    def die(self, database: Database) -> None:
        """Let the job that is to replace it be dead."""
        with database.write() as connection:
            connection.execute(
                sql(
                    "UPDATE jobs SET state = 'dead', reason = 'KeyError',"
                    " failed_last_at = updated_at + 60000 WHERE kind = 'batch' AND state = 'due'"
                )
            )

    def test_whose_job_was_given_up_get_another_one_after_a_day(
        self, database: Database, model: ModelServer
    ) -> None:
        with Workplace(desk(database), model.base_url) as place:
            self.use_placeholder(place, model)
            self.die(database)
            for _ in range(2):
                with place.process() as context:
                    assert recover_orphans(context).placeholders == 0
                place.pass_by(DAY - MINUTE)
                with place.process() as context:
                    assert recover_orphans(context).placeholders == 0
                place.pass_by(3 * MINUTE)
                with place.process() as context:
                    assert recover_orphans(context).placeholders == 1
                    # The one that died is closed: there is one job for it.
                    assert rows_of(database, "SELECT id FROM jobs WHERE state = 'dead'") == []
                    assert recover_orphans(context).placeholders == 0
                self.die(database)
            place.pass_by(2 * DAY)
            with place.process() as context:
                assert recover_orphans(context).placeholders == 1
            model.always(Good())
            place.work_off()
            assert place.job() is None
            with place.process() as context:
                assert recover_orphans(context).placeholders == 0

    def test_whose_job_an_operator_has_dropped_are_left_as_they_are(
        self, database: Database, model: ModelServer
    ) -> None:
        with Workplace(desk(database), model.base_url) as place:
            self.use_placeholder(place, model)
            self.die(database)
            drop_all(database)
            place.pass_by(100 * DAY)
            with place.process() as context:
                delete_expired(context)
                assert recover_orphans(context).placeholders == 0


class TestCooldowns:
    """What a cooldown suppressed is decided about when it ends, once."""

    def say_in_cooldown(self, play: Play, **usage: Any) -> Case:
        case = Case(play)
        case.put(GuardName.COOLDOWN, hold_ms=10 * MINUTE, subject=None)
        case.say(12, **usage)
        # Old tool output may be pruned meanwhile.
        assert case.decide().keys() <= {"prune"}
        play.work_off()
        assert recover_orphans(play.context) == Orphans()
        return case

    def ten_minutes_later(self, database: Database, **settings: Any) -> dict[str, str]:
        """Ten minutes later: recover orphans and run the turn job; returns what is open then."""
        url = url_of(database)
        with playing(url, offset_ms=10 * MINUTE, **{**SMALL, **settings}) as play:
            assert recover_orphans(play.context) == Orphans(cooled_down=1)
            assert open_jobs(database) == {"turn": COOLDOWN_OVER}
            assert recover_orphans(play.context) == Orphans()
            found = Case(play).decide()
            assert recover_orphans(play.context) == Orphans()
            return found

    def test_a_session_whose_last_report_was_over_the_threshold_is_compacted(
        self, database: Database, play: Play
    ) -> None:
        case = self.say_in_cooldown(play, prompt_tokens=150_000)
        learned = case.record().calibration
        assert self.ten_minutes_later(database) == {"batch": "after_response"}
        assert case.record().calibration == learned

    def test_a_session_that_we_estimate_over_its_threshold_is_compacted_without_a_report(
        self, database: Database, play: Play
    ) -> None:
        self.say_in_cooldown(play)
        assert self.ten_minutes_later(database) == {"batch": "after_response"}

    def test_a_session_below_it_goes_on_with_what_micro_would_have_absorbed(
        self, database: Database
    ) -> None:
        with playing(url_of(database), **{**SMALL, "threshold_tokens": 6_000}) as play:
            self.say_in_cooldown(play)
        assert self.ten_minutes_later(database, threshold_tokens=6_000) == {"micro": "micro"}

    def test_what_another_model_counted_before_does_not_count(self, database: Database) -> None:
        settings = {**SMALL, "threshold_tokens": 50_000, "micro_compact": False}
        with playing(url_of(database), **settings) as play:
            case = self.say_in_cooldown(play, prompt_tokens=150_000)
            case.gateway.set_model(case.session, "another", context_window=200_000)
        assert self.ten_minutes_later(database, **settings) == {}

    def test_it_is_not_looked_at_again_once_a_turn_has(self, database: Database) -> None:
        with playing(url_of(database), **SMALL) as play:
            self.say_in_cooldown(play, prompt_tokens=150_000)
        with playing(url_of(database), offset_ms=10 * MINUTE, **SMALL) as play:
            case = Case(play)
            case.say()
            assert case.decide() == {"batch": "after_response"}
            forget_jobs(database)
            assert recover_orphans(play.context) == Orphans()

    def test_what_openai_compacts_waits_for_a_report(self, database: Database) -> None:
        settings = {**SMALL, "codex_responses_native": True, "codex_app_server_auto": "off"}
        with playing(url_of(database), **settings) as play:
            case = Case(play, managed_by="openai", model="gpt-5.6", context_window=4_000)
            case.put(GuardName.COOLDOWN, hold_ms=10 * MINUTE)
            case.say(12)
            assert case.decide() == {}
        with playing(url_of(database), offset_ms=10 * MINUTE, **settings) as play:
            assert recover_orphans(play.context) == Orphans(cooled_down=1)
            worked = play.work_one()
            assert worked is not None
            assert worked.due == ()

    def test_after_a_real_outage_all_is_made_good_without_a_user(
        self, database: Database, model: ModelServer
    ) -> None:
        session = desk(database)
        compression = {"abort_on_summary_failure": True, "micro_compact": False}
        with Workplace(session, model.base_url, compression=compression) as place:
            model.always(Status(401))
            place.ask(Trigger.AFTER_RESPONSE)
            place.work()
            assert GuardName.COOLDOWN in place.guards()
            model.always(Good())
            with place.process() as context:
                assert recover_orphans(context).cooled_down == 0
            assert place.work() == []
            place.pass_by(place.guards()[GuardName.COOLDOWN].left_ms + 1)
            with place.process() as context:
                assert recover_orphans(context).cooled_down == 1
            made = [outcome.outcome for _ in range(3) for outcome in place.work()]
            # Old tool output may be looked at first.
            assert [one for one in made if one is not Outcome.NOTHING_DUE] == [Outcome.COMPACTED]
            assert GuardName.COOLDOWN not in place.guards()


def test_nothing_to_do_takes_no_write_lock(play: Play) -> None:
    case = Case(play)
    case.say(12)
    play.work_off()
    with counted(play.database) as work:
        recover_orphans(play.context)
    assert work.rows_written == 0
    assert not work.writes


def test_more_than_a_page_is_found(play: Play) -> None:
    with play.database.write() as connection:
        connection.execute(
            sql(
                "INSERT INTO sessions (owner, id, source, started_at, active_at, turns,"
                " decided_turns) WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL"
                " SELECT n + 1 FROM numbers WHERE n < 449) SELECT 'o', 's' || n, 'cli', 1, 1, 1, 0"
                " FROM numbers"
            )
        )
    assert recover_orphans(play.context) == Orphans(undecided=450)
    with play.database.write() as connection:
        assert len(jobs.notify_due(connection, play.database, again_after_ms=0, limit=1000)) == 450
