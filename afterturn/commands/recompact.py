"""`afterturn recompact`: summarise many old sessions, when workers have time."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Event
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from sqlalchemy.exc import IntegrityError

from afterturn.actor import person
from afterturn.ages import age_ms
from afterturn.bulk.estimate import Estimate, estimate
from afterturn.bulk.tables import (
    ended_sentence,
    estimate_document,
    run_document,
    show_estimate,
    show_run,
    show_runs,
)
from afterturn.bulk.watch import look_at, watch
from afterturn.commands.options import AsJson
from afterturn.compaction.acting import open_shop
from afterturn.consent import agreed, check_consent
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.plain_help import Command, Group
from afterturn.summarisers import LOCAL, summariser_names
from storage import audit, bulk_runs
from storage.audit import AuditAction
from storage.bulk_runs import Filters, Run, RunState, Tally
from storage.engine import Database
from workers.prices import cost, price_of
from workers.scans import recompaction
from workers.scans.recompaction import GOOD, RunStateError
from workers.settings import Settings

MOST_NAMED = 50
"""Sessions that a report names of those that could not be made smaller."""

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
    all_owners: Annotated[bool, typer.Option("--all-owners", help="Whoever owns them.")] = False,
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it acts.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave it to the workers, and do not watch.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Summarise many sessions again, one after another, behind whatever people wait for.

    Shows first what it would take; then asks. Workers do the work (queue recompact), and go on
    when this terminal is closed; Ctrl-C stops the run. It goes on where it was with `resume`, and
    does each session once. A session that no summary can be had of stays as it is.
    """
    if context.invoked_subcommand is not None:
        return
    output = Output(as_json=as_json)
    check_consent("recompact", preview=dry_run, yes=yes, as_json=as_json)
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
        seen = _estimate(invocation, database, output, filters, owner)
        if not as_json:
            show_estimate(output, seen, filters, owner)
        if dry_run or not seen.matched:
            if as_json:
                output.document({"estimate": estimate_document(seen, filters, owner), "run": None})
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
            output.tell(f"Run {run.id} has begun.")
        if detach:
            recompaction.refill(database, actor=person())
            _conclude(output, database, settings, *look_at(database, run.id))
            return
        _see_through(output, database, settings, run.id)


@application.command("watch", cls=Command)
def watch_(context: typer.Context, run: RunNumber = None, *, as_json: AsJson = False) -> None:
    """Show how far a run is until it ends. Ctrl-C ends the watching, not the run."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        number = _number(database, run)
        try:
            seen = watch(database, settings, number, output.progress, actor=person())
        except KeyboardInterrupt:
            output.notice(f"Run {number} goes on; `afterturn recompact stop {number}` stops it.")
            raise typer.Exit(Exit.INTERRUPTED) from None
        _conclude(output, database, settings, *seen)


@application.command(cls=Command)
def stop(context: typer.Context, run: RunNumber = None, *, as_json: AsJson = False) -> None:
    """Begin no more sessions of a run. Those that workers have begun come to their end."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        number = _number(database, run)
        _stop(database, number)
        seen = look_at(database, number)
        if as_json:
            _conclude(output, database, settings, *seen)
            return
        output.tell(
            ended_sentence(*seen), f"`afterturn recompact resume {number}` goes on where it was."
        )


@application.command(cls=Command)
def resume(
    context: typer.Context,
    run: RunNumber = None,
    *,
    failed: Annotated[
        bool, typer.Option("--failed", help="Try once more those that came to nothing.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave it to the workers, and do not watch.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let a run go on that was stopped. Sessions that are settled stay so, but for --failed."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        number = _number(database, run)
        with database.read() as connection:
            outcomes = bulk_runs.tally(connection, number).outcomes
        again = [outcome for outcome in outcomes if outcome not in GOOD] if failed else []
        _in_words(lambda: recompaction.resume(database, number, actor=person(), again=again))
        if detach:
            recompaction.refill(database, actor=person())
            _conclude(output, database, settings, *look_at(database, number))
            return
        _see_through(output, database, settings, number)


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
        seen = [look_at(database, number) for number in numbers]
        if as_json:
            documents = [_document(database, settings, *one) for one in seen]
            output.document({"runs": documents})
            return
    if seen:
        show_runs(output, seen)
    else:
        output.notice("There was no run yet.")


@application.command(cls=Command)
def show(context: typer.Context, run: RunNumber = None, *, as_json: AsJson = False) -> None:
    """Show what came of a run so far."""
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        _conclude(output, database, settings, *look_at(database, _number(database, run)))


def _estimate(
    invocation: Invocation,
    database: Database,
    output: Output,
    filters: Filters,
    owner: str | None,
) -> Estimate:
    source = invocation.source()
    local = summariser_names(source.current(), os.environ) == [LOCAL]
    parts = (TextColumn("looking at sessions"), BarColumn(), MofNCompleteColumn())
    with (
        open_shop(database, source, os.environ, Event()) as shop,
        Bar(*parts, console=output.notices, transient=True) as bar,
    ):
        task = bar.add_task("")
        return estimate(
            shop,
            filters,
            owner=owner,
            local=local,
            told=lambda done, of: bar.update(task, completed=done, total=of),
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


def _see_through(output: Output, database: Database, settings: Settings, number: int) -> None:
    try:
        seen = watch(database, settings, number, output.progress, actor=person())
    except KeyboardInterrupt:
        _stop(database, number)
        seen = look_at(database, number)
        output.notice(
            f"Interrupted. {ended_sentence(*seen)} `afterturn recompact resume {number}` goes on."
        )
        raise typer.Exit(Exit.INTERRUPTED) from None
    _conclude(output, database, settings, *seen)


def _stop(database: Database, number: int) -> None:
    _in_words(lambda: recompaction.stop(database, number, actor=person()))


def _in_words(act: Callable[[], int]) -> None:
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
        # Nobody was asked but the built-in summariser.
        return 0.0
    price = price_of(settings.prices, settings.auxiliary.compression.model)
    if price is None:
        return None
    return cost(price, prompt_tokens=tally.prompt_tokens, answer_tokens=tally.completion_tokens)


def _document(database: Database, settings: Settings, run: Run, tally: Tally) -> dict[str, object]:
    with database.read() as connection:
        left = bulk_runs.unsuccessful(connection, run.id, good=GOOD, limit=MOST_NAMED)
    return run_document(
        run, tally, left, cost=_cost(settings, tally), currency=settings.prices.currency
    )


def _conclude(
    output: Output, database: Database, settings: Settings, run: Run, tally: Tally
) -> None:
    """Write what came of a run; exit code 1 where it is done and sessions came to nothing."""
    with database.read() as connection:
        left = bulk_runs.unsuccessful(connection, run.id, good=GOOD, limit=MOST_NAMED)
    if output.as_json:
        output.document(_document(database, settings, run, tally))
    else:
        show_run(
            output,
            run,
            tally,
            left,
            cost=_cost(settings, tally),
            currency=settings.prices.currency,
        )
    if left and run.state is RunState.DONE:
        raise typer.Exit(Exit.FAILED)
