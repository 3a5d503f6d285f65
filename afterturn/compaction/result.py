"""What came of a compaction that a person asked for, read from what is stored."""

from __future__ import annotations

from dataclasses import dataclass

from afterturn.compaction.working import Asked
from storage import attempts, guards, job_records, sessions, summaries
from storage.attempts import AttemptRecord
from storage.engine import Database
from storage.guards import GuardName, GuardRecord
from storage.job_records import JobRecord
from storage.outcomes import Outcome
from storage.sessions import SessionRecord
from storage.summaries import SummaryRecord
from workers.batch.failure_policy import is_poor
from workers.calibration import Calibration
from workers.triggers import Trigger

_DONE = frozenset(
    {Outcome.COMPACTED, Outcome.PRUNED_ENOUGH, Outcome.NOTHING_DUE, Outcome.NOT_SMALLER}
)
_CHANGED = frozenset({Outcome.COMPACTED, Outcome.PRUNED_ENOUGH, Outcome.PLACEHOLDER, Outcome.RESET})


@dataclass(frozen=True, slots=True)
class Result:
    """The session as it is now, and the tries that were made for the person, oldest first.

    `summary` is what the last one put into the view. After a failure `cooldown` says how long
    automatic passes rest; `heal` is the job that waits to replace a placeholder.
    `whole` says that the usual part of the session was meant.
    """

    session: SessionRecord
    tries: tuple[AttemptRecord, ...]
    summary: SummaryRecord | None = None
    cooldown: GuardRecord | None = None
    no_op: GuardRecord | None = None
    heal: JobRecord | None = None
    whole: bool = True

    @property
    def outcome(self) -> str | None:
        """That of the last try, None where there was none."""
        return self.tries[-1].outcome if self.tries else None

    @property
    def good(self) -> bool:
        """Whether it came to a regular end, be it that there was nothing to do."""
        return self.outcome in _DONE

    @property
    def changed(self) -> bool:
        return any(one.outcome in _CHANGED for one in self.tries)

    @property
    def stuck(self) -> bool:
        """Whether a summary of the usual part left nearly everything of a session that is over
        its threshold still: it cannot be made smaller."""
        last = self.tries[-1] if self.tries else None
        if last is None or last.outcome != Outcome.COMPACTED or not self.whole:
            return False
        estimate = Calibration.of(self.session.calibration).estimate(last.tokens_after)
        return estimate >= last.threshold_tokens and is_poor(last.tokens_before, last.tokens_after)

    @property
    def error_class(self) -> str | None:
        """Why the last try that failed did."""
        failed = [one.error_class for one in self.tries if one.error_class is not None]
        return failed[-1] if failed else None


def read_result(database: Database, asked: Asked) -> Result:
    """Read what the tries of a job came to since it was asked for."""
    key = asked.key
    with database.read() as connection:
        of_job = attempts.of_job(connection, key, asked.job_id, after=asked.after)
        tries = tuple(one for one in of_job if one.trigger == Trigger.MANUAL)
        made = tries[-1].summary_id if tries else None
        held = guards.read_all(connection, database, key)
        waiting = job_records.open_jobs(connection, key)
        return Result(
            session=sessions.fetch(connection, key),
            tries=tries,
            summary=None if made is None else summaries.fetch(connection, made),
            cooldown=held.get(GuardName.COOLDOWN),
            no_op=held.get(GuardName.NOTHING_TO_COMPACT),
            heal=next((job for job in waiting if job.trigger == Trigger.HEAL), None),
            whole=asked.whole,
        )
