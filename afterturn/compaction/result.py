"""The result of a compaction that a person asked for, read from what is stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from afterturn.render.console import Output
from afterturn.render.fields import MOMENT, Field, Fields
from afterturn.render.sentences import change, guard_end
from afterturn.render.sessions import summary_document
from afterturn.render.terms import LOCAL, outcome_name, summary_name
from afterturn.render.words import count, duration, moment, number, share
from storage import attempts, guards
from storage.attempts import AttemptRecord
from storage.conversations import sessions, summaries
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryRecord
from storage.engine import Database
from storage.guards import GuardName, GuardRecord
from storage.jobs import job_records
from storage.jobs.job_records import JobRecord
from storage.outcomes import Outcome
from workers.policy.calibration import Calibration
from workers.policy.failures import STUCK_SENTENCE, is_poor
from workers.policy.triggers import Trigger

_DONE = frozenset(
    {Outcome.COMPACTED, Outcome.PRUNED_ENOUGH, Outcome.NOTHING_DUE, Outcome.NOT_SMALLER}
)
_CHANGED = frozenset({Outcome.COMPACTED, Outcome.PRUNED_ENOUGH, Outcome.PLACEHOLDER, Outcome.RESET})


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that was enqueued for a person. `after` is the number of its session's last attempt
    before, `whole` says that the usual part of the session is meant."""

    key: int
    job_id: int
    after: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """The session as it is now, and the attempts that were made for the person, oldest first.

    `summary` is what the last one put into the view. After a failure `cooldown` says how long
    automatic passes rest; `replacement` is the job that will replace a placeholder.
    `whole` says that the usual part of the session was meant.
    """

    session: SessionRecord
    tries: tuple[AttemptRecord, ...]
    summary: SummaryRecord | None = None
    cooldown: GuardRecord | None = None
    nothing_due: GuardRecord | None = None
    replacement: JobRecord | None = None
    whole: bool = True

    @property
    def outcome(self) -> str | None:
        """The outcome of the last attempt, None if there was none."""
        return self.tries[-1].outcome if self.tries else None

    @property
    def good(self) -> bool:
        """Whether it ended regularly, with nothing to do too."""
        return self.outcome in _DONE

    @property
    def changed(self) -> bool:
        """Whether the live view is another one now."""
        return any(one.outcome in _CHANGED for one in self.tries)

    @property
    def stuck(self) -> bool:
        """Whether the session cannot be made smaller: a summary of the usual part left nearly
        everything, and it is over its threshold still."""
        last = self.tries[-1] if self.tries else None
        if last is None or last.outcome != Outcome.COMPACTED or not self.whole:
            return False
        estimate = Calibration.of(self.session.calibration).estimate(last.tokens_after)
        return estimate >= last.threshold_tokens and is_poor(last.tokens_before, last.tokens_after)

    @property
    def error_class(self) -> str | None:
        """Why the last attempt that failed did."""
        failed = [one.error_class for one in self.tries if one.error_class is not None]
        return failed[-1] if failed else None

    @property
    def tokens_before(self) -> int:
        return self.tries[0].tokens_before if self.tries else self.session.live_tokens

    @property
    def messages_before(self) -> int:
        return self.tries[0].messages_before if self.tries else self.session.live_messages

    @property
    def cooldown_until(self) -> int | None:
        """When automatic passes run again, None if they do."""
        return self.cooldown.until_at if self.cooldown and self.cooldown.left_ms else None


def _summary_document(result: Result) -> dict[str, object] | None:
    found = summary_document(result.summary)
    return found and {**found, "model": result.tries[-1].model if result.tries else ""}


RESULT: Fields[Result] = (
    Field("outcome", None, lambda one: one.outcome),
    Field("good", None, lambda one: one.good),
    Field("changed", None, lambda one: one.changed),
    Field("stuck", None, lambda one: one.stuck),
    Field("error_class", None, lambda one: one.error_class),
    Field("attempts", None, lambda one: len(one.tries)),
    Field("requests", None, lambda one: sum(each.requests for each in one.tries)),
    Field("messages_before", None, lambda one: one.messages_before),
    Field("messages_after", None, lambda one: one.session.live_messages),
    Field("tokens_before", None, lambda one: one.tokens_before),
    Field("tokens_after", None, lambda one: one.session.live_tokens),
    Field("summary", None, _summary_document),
    Field("cooldown_until", None, lambda one: one.cooldown_until, MOMENT),
    Field(
        "replacement_due_at",
        None,
        lambda one: one.replacement.run_at if one.replacement else None,
        MOMENT,
    ),
)


def read_result(database: Database, asked: Asked) -> Result:
    """Read the attempts that a job made since it was asked for, and what they left."""
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
            nothing_due=held.get(GuardName.NOTHING_TO_COMPACT),
            replacement=next(
                (job for job in waiting if job.trigger == Trigger.REPLACE_PLACEHOLDER), None
            ),
            whole=asked.whole,
        )


def show_result(output: Output, result: Result) -> None:
    """Print what was done, what happens next, and how to take it back."""
    if not result.tries:
        output.notice("There is no result: nobody worked the job, or it is dead.", "bold red")
        return
    output.write(_headline(result), style="green" if result.good else "bold red")
    output.write(*_summary(result), *_next(result))
    if result.changed:
        session = result.session.id
        output.write(
            f"To see it: `afterturn context {session}`. "
            f"To take it back: `afterturn undo {session}`."
        )
    if result.stuck:
        output.notice(STUCK_SENTENCE, style="yellow")


def _headline(result: Result) -> str:
    last = result.tries[-1]
    match last.outcome:
        case "compacted":
            saved = share(1 - last.tokens_after / max(1, last.tokens_before))
            return f"Compacted: {change(asdict(last))}, {saved} saved."
        case "placeholder":
            return (
                f"No summary could be had ({result.error_class}), so a placeholder stands in: "
                f"{change(asdict(last))}."
            )
        case "reset":
            return f"The session was reset: {change(asdict(last))}."
        case "failed":
            tries = count(len(result.tries), "attempt")
            return f"Failed after {tries} ({result.error_class}). The session is unchanged."
        case Outcome.NOTHING_DUE:
            why = result.nothing_due.detail if result.nothing_due is not None else None
            return "Nothing to compact" + (f": {why}." if why else ".")
        case outcome:
            return f"{_capital(outcome_name(outcome))}. The session is unchanged."


def _summary(result: Result) -> list[str]:
    made, last = result.summary, result.tries[-1]
    if made is None:
        return []
    text = (
        f"{_capital(summary_name(made.kind))}: {number(made.tokens)} tokens, for positions "
        f"{made.first_position} to {made.last_position}"
    )
    if last.outcome == "compacted":
        asked = "" if last.model == LOCAL else f", {count(last.requests, 'request')}"
        text += f"; written by {last.model}{asked}, in {duration(last.total_ms)}"
    return [f"{text}."]


def _next(result: Result) -> list[str]:
    found = []
    if not result.good and result.cooldown is not None and result.cooldown.left_ms:
        found.append(
            f"Automatic passes rest {guard_end(GuardName.COOLDOWN, result.cooldown)}; "
            f"`afterturn guards clear {result.session.id}` ends that."
        )
    if result.outcome == "placeholder":
        job = result.replacement
        when = f", first at {moment(job.run_at)}" if job is not None else ""
        found.append(f"Workers replace it as soon as the model answers{when}.")
    return found


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
