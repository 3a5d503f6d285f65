"""`afterturn recompact`: summarise many old sessions, when workers have time."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Event
from typing import Annotated

import typer
from sqlalchemy.exc import IntegrityError

from afterturn.commands.shared import (
    AllOwners,
    AsJson,
    Command,
    Group,
    Yes,
    age_ms,
    agreed,
    check_consent,
)
from afterturn.compaction.estimate import Estimate, estimate
from afterturn.compaction.run import open_worker
from afterturn.compaction.watch import read_run, watch
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, person
from afterturn.render.bulk import (
    ESTIMATE,
    RUN_LISTED,
    Missed,
    RunReport,
    run_document,
    show_estimate,
    show_run,
    state_sentence,
)
from afterturn.render.console import Output
from afterturn.render.fields import document, show_table
from afterturn.render.progress import show_progress
from afterturn.render.terms import LOCAL, summariser_names
from storage import audit, bulk_runs
from storage.audit import AuditAction
from storage.bulk_runs import Filters, Run, RunState, Tally
from storage.engine import Database
from workers.scans import recompaction
from workers.scans.recompaction import GOOD, RunStateError
from workers.settings import Settings
from workers.settings.prices import cost, price_of

MOST_NAMED = 50
"""Sessions that are named of those that were not made smaller."""

Detach = Annotated[
    bool, typer.Option("--detach", help="Leave it to the workers, and do not watch.")
]
RunNumber = Annotated[
    int | None, typer.Argument(metavar="[RUN]", help="Number of the run. Default: the last one.")
]

application = typer.Typer(cls=Group, invoke_without_command=True)


@application.callback()
def recompact(
    context: typer.Context,
    *,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only sessions of this source; may be given again."),
    ] = None,
    all_owners: AllOwners = False,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Only those that were idle so long, such as 90d or 12h."),
    ] = None,
    above_tokens: Annotated[
        int, typer.Option(min=0, metavar="N", help="Only those with so many live tokens or more.")
    ] = 0,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those with this in their title.")
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, metavar="N", help="Sessions under way. Default: worker.bulk_at_once."
        ),
    ] = None,
    per_minute: Annotated[
        float | None,
        typer.Option(min=0.01, max=60_000, metavar="N", help="Begin no more in a minute."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would take, and change nothing.")
    ] = False,
    yes: Yes = False,
    detach: Detach = False,
    as_json: AsJson = False,
) -> None:
    """Summarise many old sessions, one after another, with a lower priority than other work.

    Shows first what it would take; then asks. Workers do the work (queue recompact), and go on
    when this terminal is closed; Ctrl-C stops the run. `resume` goes on where it was; each session
    is done once. A session whose summary fails stays as it is.
    """
    if context.invoked_subcommand is not None:
        return
    output = Output(as_json=as_json)
    check_consent("recompact", preview=dry_run, yes=yes, as_json=as_json, option="--dry-run")
    invocation = Invocation.of(context)
    owner = None if all_owners else invocation.owner
    filters = Filters(
        sources=tuple(source or ()),
        older_ms=None if older_than is None else age_ms(older_than, "--older-than"),
        above_tokens=above_tokens,
        title=title,
    )
    settings = invocation.settings()
    if not settings.compression.enabled and not dry_run:
        raise CommandError(
            "compression.enabled is false, so workers would leave every session as it is; "
            "switch it on first",
            Exit.CONFIGURATION,
        )
    with invocation.database() as (database, _):
        planned = (_estimate(invocation, database, output, filters, owner), filters, owner)
        if not as_json:
            show_estimate(output, planned)
        if dry_run or not planned[0].matched:
            if as_json:
                output.document({"estimate": document(ESTIMATE, planned), "run": None})
            return
        if not yes and not agreed(output, "Begin now?"):
            return
        run = _begin(
            database,
            filters,
            owner=owner,
            at_once=at_once or settings.worker.bulk_at_once,
            pace_ms=0 if per_minute is None else max(1, round(60_000 / per_minute)),
        )
        if not as_json:
            output.write(f"Run {run.id} has begun.")
        if detach:
            recompaction.refill(database, actor=person())
            _show(output, _report(database, settings, run.id))
            return
        _watch_or_stop(output, database, settings, run.id)


@application.command("watch", cls=Command)
def watch_(context: typer.Context, run: RunNumber = None, *, as_json: AsJson = False) -> None:
    """Show the progress of a run until it ends. Ctrl-C ends the watching, not the run."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        number = _number(database, run)
        try:
            watch(database, settings, number, output.progress, actor=person())
        except KeyboardInterrupt:
            output.notice(f"Run {number} goes on; `afterturn recompact stop {number}` stops it.")
            raise typer.Exit(Exit.INTERRUPTED) from None
        _show(output, _report(database, settings, number))


@application.command(cls=Command)
def stop(context: typer.Context, run: RunNumber = None, *, as_json: AsJson = False) -> None:
    """Begin no more sessions of a run. Those that workers have begun are finished."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        number = _number(database, run)
        _stop(database, number)
        report = _report(database, settings, number)
        if as_json:
            _show(output, report)
            return
        output.write(
            state_sentence(report.run, report.tally),
            f"`afterturn recompact resume {number}` goes on where it was.",
        )


@application.command(cls=Command)
def resume(
    context: typer.Context,
    run: RunNumber = None,
    *,
    failed: Annotated[
        bool, typer.Option("--failed", help="Try those once more that failed.")
    ] = False,
    detach: Detach = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was stopped. Settled sessions stay so, except with --failed."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        number = _number(database, run)
        with database.read() as connection:
            outcomes = bulk_runs.tally(connection, number).outcomes
        again = [outcome for outcome in outcomes if outcome not in GOOD] if failed else []
        _check_state(lambda: recompaction.resume(database, number, actor=person(), again=again))
        if detach:
            recompaction.refill(database, actor=person())
            _show(output, _report(database, settings, number))
            return
        _watch_or_stop(output, database, settings, number)


@application.command("list", cls=Command)
def list_(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many of the last ones.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, the last ones first."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        with database.read() as connection:
            numbers = [run.id for run in bulk_runs.newest(connection, limit=limit)]
        reports = [_report(database, settings, number) for number in numbers]
    if as_json:
        output.document({"runs": [run_document(one) for one in reports]})
    elif reports:
        show_table(output, RUN_LISTED, [(one.run, one.tally) for one in reports])
    else:
        output.notice("There was no run yet.")


@application.command(cls=Command)
def show(context: typer.Context, run: RunNumber = None, *, as_json: AsJson = False) -> None:
    """Show the state of a run and its results so far."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        _show(output, _report(database, settings, _number(database, run)))


def _estimate(
    invocation: Invocation,
    database: Database,
    output: Output,
    filters: Filters,
    owner: str | None,
) -> Estimate:
    source = invocation.source()
    local = summariser_names(source.current(), os.environ) == [LOCAL]
    with (
        open_worker(database, source, os.environ, Event()) as worker,
        show_progress(output.notices, seconds=None) as progress,
    ):
        return estimate(
            worker,
            filters,
            owner=owner,
            local=local,
            on_progress=lambda done, of: progress.bar("estimating", done, of, "sessions"),
        )


def _begin(
    database: Database, filters: Filters, *, owner: str | None, at_once: int, pace_ms: int
) -> Run:
    actor = person()
    try:
        with database.write() as connection:
            run = bulk_runs.create(
                connection,
                database,
                filters,
                owner=owner,
                actor=actor,
                at_once=at_once,
                pace_ms=pace_ms,
            )
            audit.record(
                connection,
                database,
                AuditAction.BULK_STARTED,
                actor=actor,
                owner=owner,
                facts={"run": run.id, "sessions": run.sessions},
            )
            return run
    except IntegrityError:
        with database.read() as connection:
            other = bulk_runs.running(connection)
        which = f"run {other.id}" if other else "another run"
        raise CommandError(
            f"{which} is under way; `afterturn recompact watch` shows it, `stop` stops it",
            Exit.USAGE,
        ) from None


def _watch_or_stop(output: Output, database: Database, settings: Settings, number: int) -> None:
    try:
        watch(database, settings, number, output.progress, actor=person())
    except KeyboardInterrupt:
        _stop(database, number)
        sentence = state_sentence(*read_run(database, number))
        output.notice(f"Interrupted. {sentence} `afterturn recompact resume {number}` goes on.")
        raise typer.Exit(Exit.INTERRUPTED) from None
    _show(output, _report(database, settings, number))


def _stop(database: Database, number: int) -> None:
    _check_state(lambda: recompaction.stop(database, number, actor=person()))


def _check_state(act: Callable[[], int]) -> None:
    try:
        act()
    except RunStateError as error:
        raise CommandError(str(error), Exit.USAGE) from None


def _number(database: Database, given: int | None) -> int:
    with database.read() as connection:
        found = (
            bulk_runs.newest(connection, limit=1)
            if given is None
            else [run for run in [bulk_runs.find(connection, given)] if run is not None]
        )
    if not found:
        which = "there was no run yet" if given is None else f"there is no run {given}"
        raise CommandError(f"{which}; `afterturn recompact list` shows them", Exit.NOT_FOUND)
    return found[0].id


def _cost(settings: Settings, tally: Tally) -> float | None:
    if not tally.prompt_tokens + tally.completion_tokens:
        # No model was asked: the built-in summariser costs nothing.
        return 0.0
    price = price_of(settings.prices, settings.auxiliary.compression.model)
    if price is None:
        return None
    return cost(price, prompt_tokens=tally.prompt_tokens, answer_tokens=tally.completion_tokens)


def _report(database: Database, settings: Settings, number: int) -> RunReport:
    run, tally = read_run(database, number)
    with database.read() as connection:
        missed = bulk_runs.unsuccessful(connection, run.id, good=GOOD, limit=MOST_NAMED)
    return RunReport(
        run,
        tally,
        [Missed(*one) for one in missed],
        cost=_cost(settings, tally),
        currency=settings.prices.currency,
    )


def _show(output: Output, report: RunReport) -> None:
    """Write the state of a run; exit code 1 if it is done and sessions failed."""
    if output.as_json:
        output.document(run_document(report))
    else:
        show_run(output, report)
    if report.missed and report.run.state is RunState.DONE:
        raise typer.Exit(Exit.FAILED)
