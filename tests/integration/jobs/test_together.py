"""Turn jobs that wait are taken and decided about together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from threading import Thread

import pytest
from sqlalchemy import text as sql

from producers import Session
from storage import jobs
from storage.conversations import cursors, events, sessions
from storage.conversations.cursors import CursorName
from storage.jobs import JobKind
from tests.support.observing.counting import counted
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on, rows_of, url_of
from tests.support.sessions.play import Play, playing
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import TOGETHER, Crashed, NotClaimed, Worked, work_next
from workers.runtime.scheduling import Finished

pytestmark = pytest.mark.both_databases


@pytest.fixture
def play(database_url: str) -> Iterator[Play]:
    with playing(database_url) as play:
        yield play


def talk(play: Play, number: int) -> list[int]:
    """Finish a turn in each of that many new sessions; return the turn jobs, notified."""
    for _ in range(number):
        session = play.gateway.open_session(context_window=128_000)
        play.gateway.finalize_turn(session, [user("hello"), assistant("good day")])
    return notify(play)


def notify(play: Play) -> list[int]:
    with play.database.write() as connection:
        due = jobs.notify_due(connection, play.database, again_after_ms=-1, limit=1000)
    return sorted(job.id for job in due)


def worked(context: WorkerContext, job: int) -> Worked:
    match work_next(context, job):
        case Worked() as done:
            return done
        case other:
            raise AssertionError(other)


def states(play: Play) -> list[str]:
    """Return the state of each turn job, in the order in which they were made."""
    query = "SELECT state FROM jobs WHERE kind = 'turn' ORDER BY id"
    return list(map(itemgetter(0), rows_of(play.database, query)))


def decided(play: Play) -> list[int]:
    """About how many turns it was decided, session by session."""
    query = 'SELECT decided_turns FROM sessions ORDER BY "key"'
    return list(map(itemgetter(0), rows_of(play.database, query)))


def once_at(context: WorkerContext, point: str, *acts: Callable[[], None]) -> WorkerContext:
    """Return a context in which a job that gets to `point` does the next of `acts`, if any."""
    left = list(acts)

    def failpoint(at: str) -> None:
        if at == point and left:
            left.pop(0)()

    return replace(context, failpoint=failpoint)


def fail() -> None:
    raise ValueError


def test_each_is_decided_about_once_and_its_own_notification_finds_nothing(play: Play) -> None:
    notifications = talk(play, TOGETHER + 4)
    assert worked(play.context, notifications[0]).together == TOGETHER
    assert states(play) == ["done"] * TOGETHER + ["due"] * 4
    assert decided(play) == [1] * TOGETHER + [0] * 4
    # This process knows what it has closed; another one looks.
    with counted(play.database) as looks:
        for job in notifications[:TOGETHER]:
            assert work_next(play.context, job) == NotClaimed()
    assert looks.statements == 0
    other = replace(play.context, finished=Finished())
    with counted(play.database) as looks:
        for job in notifications[:TOGETHER]:
            assert work_next(other, job) == NotClaimed()
    assert looks.statements == TOGETHER
    assert worked(play.context, notifications[TOGETHER]).together == 4
    assert states(play) == ["done"] * len(notifications)
    assert decided(play) == [1] * len(notifications)


def test_many_cost_little_more_than_one(play: Play) -> None:
    [job] = talk(play, 1)
    with counted(play.database) as one:
        worked(play.context, job)
    notifications = talk(play, TOGETHER)
    with counted(play.database) as many:
        assert worked(play.context, notifications[0]).together == TOGETHER
    # What is read of each one's messages to see whether something could be absorbed.
    reads = 3 * TOGETHER
    assert many.statements <= one.statements + reads


def test_what_becomes_due_in_each_is_notified(play: Play) -> None:
    talks: list[Session] = []
    for _ in range(3):
        session = play.gateway.open_session(context_window=8_000)
        for number in range(12):
            play.gateway.finalize_turn(session, turn(number))
        talks.append(session)
    done = worked(play.context, notify(play)[0])
    assert done.together == 3
    assert sorted(due.session for due in done.due) == sorted(session.id for session in talks)
    assert {due.kind for due in done.due} == {JobKind.MICRO}
    assert [type(work_next(play.context, due.id)) for due in done.due] == [Worked] * 3


def test_a_turn_that_is_finished_meanwhile_makes_its_job_due_again(play: Play) -> None:
    notifications = talk(play, 3)
    [_, (talked,), _] = rows_of(play.database, 'SELECT id FROM sessions ORDER BY "key"')
    context = once_at(play.context, "decided", lambda: say_more(play, talked))
    done = worked(context, notifications[0])
    assert done.together == 3
    assert [due.id for due in done.due] == [notifications[1]]
    assert states(play) == ["done", "due", "done"]
    assert decided(play) == [1, 1, 1]
    assert [job in play.context.finished for job in notifications] == [True, False, True]
    assert worked(play.context, notifications[1]).together == 1
    assert decided(play) == [1, 2, 1]


def say_more(play: Play, session: str) -> None:
    play.gateway.finalize_turn(session, [user("more"), assistant("there you are")])


def test_one_that_was_taken_away_keeps_nobody_elses_from_being_stored(play: Play) -> None:
    notifications = talk(play, 3)

    def take_away() -> None:
        with play.database.write() as connection:
            connection.execute(
                sql("UPDATE jobs SET fence = fence + 1 WHERE id = :id"), {"id": notifications[1]}
            )

    done = worked(once_at(play.context, "decided", take_away), notifications[0])
    assert done.due == ()
    assert states(play) == ["done", "running", "done"]
    assert decided(play) == [1, 0, 1]


def test_where_they_fail_together_each_is_worked_alone(play: Play) -> None:
    notifications = talk(play, 3)
    done = worked(once_at(play.context, "decided", fail), notifications[0])
    assert (done.job_id, done.together) == (notifications[0], 1)
    assert states(play) == ["done"] * 3


def test_the_one_that_fails_alone_too_waits_for_its_next_try_and_the_others_are_done(
    play: Play,
) -> None:
    notifications = talk(play, 3)
    match work_next(once_at(play.context, "decided", fail, fail), notifications[0]):
        case Crashed(error, dead, due=due):
            assert isinstance(error, ValueError)
            assert not dead
            assert [job.id for job in due] == [notifications[0]]
        case other:
            raise AssertionError(other)
    assert states(play) == ["due", "done", "done"]


def test_what_was_claimed_before_is_worked_alone_since_it_may_end_its_process(play: Play) -> None:
    notifications = talk(play, 4)
    with play.database.write() as connection:
        connection.execute(
            sql("UPDATE jobs SET attempt = 1 WHERE id = :id"), {"id": notifications[1]}
        )
    assert worked(play.context, notifications[1]).together == 1
    with play.database.write() as connection:
        connection.execute(
            sql("UPDATE jobs SET attempt = 1, state = 'due' WHERE id = :id"),
            {"id": notifications[1]},
        )
    assert worked(play.context, notifications[0]).together == 3
    assert states(play) == ["done", "due", "done", "done"]


def test_one_owners_many_do_not_keep_another_from_his_turn(play: Play) -> None:
    with gateway_on(url_of(play.database), owner="zoe") as hers:
        session = hers.open_session()
        hers.finalize_turn(session, [user("hello"), assistant("good day")])
    notifications = talk(play, 3 * TOGETHER)
    worked(play.context, notifications[1])
    # It is the next owner's turn, and nobody stands behind her.
    second = worked(play.context, notifications[-1])
    assert (second.session, second.together) == (session.id, 1)
    assert [due.id for due in second.due] == [notifications[-1]]
    assert worked(play.context, notifications[-1]).together == TOGETHER


def test_other_owners_are_taken_along_in_the_order_of_names(play: Play) -> None:
    for owner in ("b", "a", "c"):
        with gateway_on(url_of(play.database), owner=owner) as gateway:
            gateway.finalize_turn(gateway.open_session(), [user("hello"), assistant("good day")])
    first = notify(play)[0]
    done = worked(play.context, first)
    # The turn begins at the front.
    assert done.together == 3
    assert states(play) == ["done"] * 3


def test_a_session_that_a_gateway_writes_to_is_not_waited_for(postgres_url: str) -> None:
    with playing(postgres_url) as play:
        notifications = talk(play, 3)
        with play.database.write() as connection:
            [_, (key,), _] = rows_of(play.database, 'SELECT "key" FROM sessions ORDER BY "key"')
            sessions.lock(connection, key)
            assert worked(play.context, notifications[0]).together == 2
        assert states(play) == ["done", "due", "done"]
        assert worked(play.context, notifications[1]).together == 1


def test_each_sessions_own_cursor_says_which_of_its_reports_are_unread(play: Play) -> None:
    talks = [play.gateway.open_session(context_window=128_000) for _ in range(3)]
    usage = {"prompt_tokens": 100, "completion_tokens": 5}
    for talk_of in talks[:2]:
        for _ in range(2):
            said = [user("hello"), assistant("good day")]
            play.gateway.finalize_turn(talk_of, said, usage=usage)
    keys = [talk_of.key for talk_of in talks]
    numbers = [row[0] for row in rows_of(play.database, "SELECT id FROM turn_events ORDER BY id")]
    with play.database.write() as connection:
        cursors.move(connection, keys[0], CursorName.REPORTS, numbers[1])
        cursors.move(connection, keys[1], CursorName.REPORTS, numbers[2])
    with play.database.read() as connection:
        found = events.unread_reports(connection, keys)
        assert {key: report.id for key, report in found.items()} == {keys[1]: numbers[3]}
        assert found[keys[1]] == events.newest_report(connection, keys[1], after=0)


def test_a_thread_that_is_notified_meanwhile_finds_its_job_taken_along(play: Play) -> None:
    notifications = talk(play, 3)
    found: list[object] = []
    other = Thread(target=lambda: found.append(work_next(play.context, notifications[2])))
    done = worked(once_at(play.context, "decided", other.start), notifications[0])
    other.join(180)
    assert found == [NotClaimed()]
    assert (done.together, states(play)) == (3, ["done"] * 3)
