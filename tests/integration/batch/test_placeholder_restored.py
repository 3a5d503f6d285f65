"""A placeholder that an undo brings back is replaced like a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from producers import Session
from storage.jobs import job_records
from storage.jobs.job_records import JobRecord
from storage.outcomes import Outcome
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, Turn, playing
from tests.support.sessions.stored_session import later
from workers.policy.triggers import Trigger
from workers.summariser.contract import ErrorClass, Reply, SummariserError, SummaryRequest
from workers.summariser.extractive.local import LocalSummariser

HOUR_MS = 3_600_000


class Down(LocalSummariser):
    """A model whose key is refused."""

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        raise SummariserError(ErrorClass.AUTH)


def replacement_jobs(play: Play, session: Session) -> list[JobRecord]:
    with play.database.read() as connection:
        found = job_records.open_jobs(connection, session.key)
    return [job for job in found if job.trigger == Trigger.REPLACE_PLACEHOLDER]


def test_undo_and_rewind_enqueue_the_replacement_of_a_placeholder_that_they_bring_back(
    database_url: str,
) -> None:
    with playing(
        database_url, summariser=Down(), micro_compact=False, threshold_tokens=2000
    ) as play:
        session = play.gateway.open_session("s", context_window=100_000)
        for number in range(30):
            play.say(session, Turn(turn(number), [None] * 4))
        play.work_off()
        play.gateway.compact(session)
        done = play.work_one()
        assert done is not None
        assert done.passes[0].outcome is Outcome.PLACEHOLDER
        assert len(replacement_jobs(play, session)) == 1

        play.database = later(play.database, HOUR_MS)
        play.context = replace(play.context, database=play.database, summariser=LocalSummariser())
        (replaced,) = play.work_off()
        assert replaced.passes[0].outcome is Outcome.PLACEHOLDER_REPLACED
        assert not replacement_jobs(play, session)

        play.gateway.undo(session)
        (due,) = replacement_jobs(play, session)
        assert due.run_at > 0
        # The undo suppresses automatic passes until the next turn; then it is replaced again.
        play.say(session, Turn(turn(30), [None] * 4))
        play.database = later(play.database, HOUR_MS)
        play.context = replace(play.context, database=play.database)
        assert any(
            o.outcome is Outcome.PLACEHOLDER_REPLACED
            for worked in play.work_off()
            for o in worked.passes
        )
        assert not replacement_jobs(play, session)
