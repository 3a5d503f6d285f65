"""`afterturn dead list`, `dead show`, `dead retry` and `dead drop`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer
from rich.text import Text
from sqlalchemy import Connection

from afterturn.commands.shared import AsJson, Command, Group, near
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, person
from afterturn.render.console import Output, plain
from afterturn.render.fields import (
    ID,
    MOMENT,
    NUMBER,
    SERIAL,
    Field,
    Fields,
    document,
    documents,
    for_people,
    for_programs,
    lines,
    show_table,
)
from afterturn.render.terms import attempt_name
from afterturn.render.words import NONE, count, moment
from storage import audit
from storage.audit import AuditAction
from storage.engine import Database
from storage.jobs import JobKind, dead_jobs, job_records
from storage.jobs.dead_jobs import DeadJob, Retried

AT_ONCE = 100
"""Jobs of a transaction when there are many: each holds a row that a gateway may want."""

application = typer.Typer(
    cls=Group,
    help="Jobs that were given up: why and where; retry or drop them.",
    no_args_is_help=True,
)

Jobs = Annotated[list[int] | None, typer.Argument(metavar="[JOB]...", help="Numbers of dead jobs.")]
ByReason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="All with exactly this reason instead."),
]
T = TypeVar("T")

DEAD: Fields[DeadJob] = (
    Field("id", "job", lambda job: job.id, SERIAL),
    Field("owner", "owner", lambda job: job.owner, ID, priority=4),
    Field("session", "session", lambda job: job.session, ID),
    Field("kind", "kind", lambda job: job.kind),
    Field("reason", "reason", lambda job: job.reason, text=lambda job: job.reason or NONE),
    Field("attempts", "attempts", lambda job: job.attempt, NUMBER, priority=1),
    *for_programs("queue", "trigger", "tries"),
    Field("priority", None, lambda job: job.priority),
    Field("options", None, lambda job: without_texts(job.options)),
    Field("created_at", None, lambda job: job.created_at, MOMENT),
    Field("first_failed_at", "first", lambda job: job.failed_first_at, MOMENT, priority=3),
    Field("last_failed_at", "last", lambda job: job.failed_last_at, MOMENT, priority=2),
)

DEAD_LINES: Fields[DeadJob] = (
    *DEAD[:3],
    for_people("work", lambda job: attempt_name(job.kind, job.trigger)),
    for_people("queue", lambda job: job.queue),
    for_people("trigger", lambda job: f"{job.trigger}, priority {job.priority}"),
    for_people("options", lambda job: _options(job) or "none"),
    for_people("reason", lambda job: job.reason or NONE),
    for_people(
        "attempts", lambda job: f"{job.attempt}, failed requests for a summary: {job.tries}"
    ),
    for_people("enqueued", lambda job: moment(job.created_at)),
    for_people("first failure", lambda job: moment(job.failed_first_at)),
    for_people("last failure", lambda job: moment(job.failed_last_at)),
)

RETRIED: Fields[Retried] = (
    Field("dead", None, lambda one: one.dead),
    Field("job", None, lambda one: one.job.id),
    Field("session", None, lambda one: one.job.session),
)


@application.command("list", cls=Command)
def list_(
    context: typer.Context,
    *,
    kind: Annotated[JobKind | None, typer.Option(help="Only jobs of this kind.")] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those with exactly this reason.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only sessions of this owner. Default: all.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Jobs on a page.")] = 20,
    before: Annotated[
        int | None, typer.Option(metavar="JOB", help="The next page: what the last one ended on.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List dead jobs of every owner, the newest first."""
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, _), database.read() as connection:
        page = dead_jobs.page(
            connection,
            kind=kind,
            reason=reason,
            owner=owner if owner is not None else invocation.stated_owner(context),
            before=before,
            limit=limit + 1,
        )
        reasons = dead_jobs.reasons(connection)
    page, mark = page[:limit], page[limit - 1].id if len(page) > limit else None
    if as_json:
        output.document(
            {
                "jobs": documents(DEAD, page),
                "next": mark,
                "reasons": {one.text: one.jobs for one in reasons},
            }
        )
        return
    if not page:
        total = count(sum(one.jobs for one in reasons), "dead job")
        output.notice(f"None of the {total} matches." if reasons else "No job is dead.")
        return
    show_table(output, DEAD, page)
    if mark is not None:
        output.notice(f"More: afterturn dead list --before {mark}", style="dim")


@application.command(cls=Command)
def show(
    context: typer.Context,
    job: Annotated[int, typer.Argument(metavar="JOB", help="Number of the dead job.")],
    as_json: AsJson = False,
) -> None:
    """Show a dead job: what it was for, why it was given up, and where it failed.

    Shows frames of the program and lengths of texts, nothing of the conversation.
    """
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, _), database.read() as connection:
        found = dead_jobs.find(connection, job)
        if found is None:
            raise _not_dead(connection, database, [job])
    if as_json:
        output.document({**document(DEAD, found), "trace": found.trace})
        return
    output.show(lines(DEAD_LINES, found), "")
    if found.trace:
        output.show("Where it failed:", Text(plain(found.trace.rstrip("\n"))))
    else:
        output.show("There is no traceback: its worker ended without reporting an error.")


@application.command(cls=Command)
def retry(
    context: typer.Context, jobs: Jobs = None, *, reason: ByReason = None, as_json: AsJson = False
) -> None:
    """Enqueue the work of dead jobs again, with all their attempts before them."""
    output = Output(as_json=as_json)
    _check_choice(jobs, reason)
    with Invocation.of(context).database() as (database, _):

        def again(connection: Connection, ids: Collection[int]) -> list[Retried]:
            _note(connection, database, AuditAction.JOB_RETRIED, ids)
            return dead_jobs.retry(connection, database, ids)

        retried = (
            _all_of_reason(database, reason, again)
            if reason is not None
            else _named(database, jobs or [], again, number=lambda one: one.dead)
        )
    if as_json:
        output.document({"retried": documents(RETRIED, retried)})
        return
    if reason is None:
        for one in retried:
            output.write(
                f"Job {one.dead} is closed; its work is due as job {one.job.id} "
                f"({one.job.kind.value}, session {one.job.session})."
            )
    else:
        output.write(f"The work of {count(len(retried), 'dead job')} is due again.")
    output.write("Workers are notified within schedule.reconcile_seconds.")


@application.command(cls=Command)
def drop(
    context: typer.Context,
    jobs: Jobs = None,
    *,
    reason: ByReason = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --reason: drop however many there are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Close dead jobs without doing their work. Their sessions go on with the next turn."""
    output = Output(as_json=as_json)
    _check_choice(jobs, reason)
    with Invocation.of(context).database() as (database, _):

        def close(connection: Connection, ids: Collection[int]) -> list[int]:
            _note(connection, database, AuditAction.JOB_DROPPED, ids)
            return dead_jobs.drop(connection, database, ids)

        if reason is None:
            dropped = _named(database, jobs or [], close, number=lambda one: one)
        else:
            if not yes:
                number = _number_of_reason(database, reason)
                raise CommandError(
                    f"this drops {count(number, 'dead job')}: add --yes to do so", Exit.USAGE
                )
            dropped = _all_of_reason(database, reason, close)
    if as_json:
        output.document({"dropped": dropped})
        return
    output.write(f"Dropped {count(len(dropped), 'dead job')}. Nothing of a session was changed.")


def _note(
    connection: Connection, database: Database, action: AuditAction, ids: Collection[int]
) -> None:
    """Record in the audit trail what is done with dead jobs."""
    for job_id in ids:
        dead = dead_jobs.find(connection, job_id)
        if dead is not None:
            audit.record(
                connection,
                database,
                action,
                actor=person(),
                owner=dead.owner,
                session=dead.session,
                facts={"job": job_id, "kind": dead.kind, "reason": dead.reason},
            )


def _check_choice(jobs: Sequence[int] | None, reason: str | None) -> None:
    if bool(jobs) == (reason is not None):
        raise CommandError("name either JOBs or a --reason", Exit.USAGE)


def _named(
    database: Database,
    ids: Sequence[int],
    act: Callable[[Connection, Collection[int]], list[T]],
    *,
    number: Callable[[T], int],
) -> list[T]:
    """Act on all of these jobs, or on none where one of them is not dead."""
    with database.write() as connection:
        done = act(connection, ids)
        if left := sorted(set(ids) - {number(one) for one in done}):
            raise _not_dead(connection, database, left)
    return done


def _all_of_reason(
    database: Database, reason: str, act: Callable[[Connection, Collection[int]], list[T]]
) -> list[T]:
    """Act on all jobs that are dead now for a reason, in short transactions."""
    _number_of_reason(database, reason)
    done: list[T] = []
    for ids in _pages(database, reason):
        with database.write() as connection:
            done += act(connection, ids)
    return done


def _pages(database: Database, reason: str) -> Iterator[list[int]]:
    # From the newest down, so that a job that dies again meanwhile is not met again.
    mark: int | None = None
    while True:
        with database.read() as connection:
            page = dead_jobs.page(connection, reason=reason, before=mark, limit=AT_ONCE)
        if page:
            mark = page[-1].id
            yield [job.id for job in page]
        if len(page) < AT_ONCE:
            return


def _number_of_reason(database: Database, reason: str) -> int:
    with database.read() as connection:
        numbers = {one.text: one.jobs for one in dead_jobs.reasons(connection)}
    if reason in numbers:
        return numbers[reason]
    known = [repr(text) for text in numbers]
    raise CommandError(
        f"no job is dead for the reason {reason!r}; {near(repr(reason), known)}", Exit.NOT_FOUND
    )


def _not_dead(connection: Connection, database: Database, ids: Sequence[int]) -> CommandError:
    """Return the error for jobs that are not dead, or cannot be worked here."""
    causes = "; ".join(f"job {job} {_why(connection, database, job)}" for job in ids)
    return CommandError(
        f"{causes}. Nothing was changed; `afterturn dead list` shows dead jobs", Exit.NOT_FOUND
    )


def _why(connection: Connection, database: Database, job_id: int) -> str:
    if (dead := dead_jobs.find(connection, job_id)) is not None:
        if dead.kind not in list(JobKind):
            return f"is of kind {dead.kind!r}, which this version does not know"
        return "is being retried or dropped by somebody else"
    state = job_records.standing(connection, database, job_id)
    if state is None:
        return "does not exist"
    return f"is not dead but {state.state.value}"


def without_texts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a job, with lengths in place of texts, which a person wrote."""
    return {
        name: value
        if value is None or isinstance(value, int | float)
        else f"({count(len(str(value)), 'character')})"
        for name, value in options.items()
    }


def _options(job: DeadJob) -> str:
    return ", ".join(f"{name} {value}" for name, value in without_texts(job.options).items())
