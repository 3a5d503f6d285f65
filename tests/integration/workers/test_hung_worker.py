"""A worker that hangs loses its session at the job's deadline, however well its lease is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from storage import jobs
from storage.engine import Database
from storage.jobs import JobState
from storage.outcomes import Outcome
from tests.support.observing.waiting import wait_until
from tests.support.sessions.conversations import turn
from tests.support.sessions.decisions import SMALL, Case
from tests.support.sessions.gateways import contents, url_of
from tests.support.sessions.play import Play, playing
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Worked, work
from workers.summariser.contract import Reply, SummaryRequest
from workers.summariser.extractive.local import LocalSummariser


class HangingSummariser(LocalSummariser):
    """Does not answer before it is released, and hears nothing meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.released = threading.Event(), threading.Event()

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        self.asked.set()
        assert self.released.wait(60)
        return super().summarise(request, stop)


class HastyContext(WorkerContext):
    """One whose leases last a moment and whose jobs may take hardly longer."""

    @property
    def lease_ms(self) -> int:
        return 150

    @property
    def deadline_ms(self) -> int:
        return 600


@pytest.fixture
def play(database: Database) -> Iterator[Play]:
    with playing(url_of(database), **{**SMALL, "threshold_tokens": 6_000}) as playing_now:
        yield playing_now


def rescued(database: Database) -> bool:
    with database.write() as connection:
        return jobs.rescue_expired(connection, database) > 0


def test_its_job_goes_to_another_worker_and_what_it_says_later_is_not_heard(play: Play) -> None:
    case = Case(play)
    case.say(12)
    assert case.decide() == {"micro": "micro"}
    ((job,),) = play.rows("SELECT id FROM jobs WHERE kind = 'micro'")
    hanging = HangingSummariser()
    context = HastyContext(play.database, play.context.settings, hanging)
    said: list[object] = []
    hung = threading.Thread(target=lambda: said.append(work(context, job)), daemon=True)
    hung.start()
    assert hanging.asked.wait(180)

    # Its lease is renewed all the time, by a thread that does not hang, and ends nevertheless.
    wait_until(lambda: rescued(play.database), "the lease ends at the deadline")
    assert play.rows("SELECT state, attempt, fence FROM jobs WHERE kind = 'micro'") == [
        (JobState.DUE, 1, 1)
    ]
    other = work(play.context, job)
    assert isinstance(other, Worked)
    assert other.passes[0].outcome is Outcome.ABSORBED
    before = contents(play.database)
    assert turn(0)[0] in [row.message for row in play.view(case.session)]

    hanging.released.set()
    hung.join(180)
    (late,) = said
    assert isinstance(late, Worked)
    assert {one.outcome for one in late.passes} == {Outcome.HANDED_BACK}
    after = contents(play.database)
    # Its answer may be kept, since answers belong to questions; nothing else of it is.
    assert {**after, "answers": []} == {**before, "answers": []}
