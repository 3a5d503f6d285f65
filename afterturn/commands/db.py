"""`afterturn db upgrade`, `afterturn db current` and `afterturn db reindex`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.progress import Progress

from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.database_file import NoDatabaseFile, missing_file
from afterturn.invocation import Invocation
from afterturn.plain_help import Command, Group
from afterturn.words import count
from storage import migrate, search
from storage.engine import Database, open_database
from storage.search import Rebuilt
from workers.urls import masked_url

application = typer.Typer(
    cls=Group, help="The tables of the shared database.", no_args_is_help=True
)


@application.command(cls=Command)
def upgrade(context: typer.Context, as_json: AsJson = False) -> None:
    """Make the tables, or bring them to this version's revision. May be run at any time."""
    output = Output(as_json=as_json)
    with _database(context, create=True) as database:
        before = migrate.current(database)
        migrate.upgrade(database)
        after = migrate.current(database)
        place = masked_url(database.place)
    if as_json:
        output.document({"database": place, "before": before, "revision": after})
    elif before == after:
        output.show(f"{place} is at revision {after} already.")
    else:
        output.show(f"{place}: revision {before or 'none'} → {after}.")


@application.command(cls=Command)
def current(context: typer.Context, as_json: AsJson = False) -> None:
    """Print the revision of the tables and the one that this version needs."""
    output = Output(as_json=as_json)
    with _database(context, create=False) as database:
        revision = migrate.current(database)
        place = masked_url(database.place)
    needed = migrate.head()
    if as_json:
        document = {"database": place, "revision": revision, "needed": needed}
        output.document({**document, "up_to_date": revision == needed})
    elif revision == needed:
        output.show(f"{place} is at revision {revision}, as needed.")
    else:
        output.show(
            f"{place} is at revision {revision or 'none'}, this version needs {needed}: "
            "run `afterturn db upgrade`."
        )


@application.command(cls=Command)
def reindex(context: typer.Context, as_json: AsJson = False) -> None:
    """Build the search index anew, while everything goes on, and drop the old one.

    For one that `afterturn doctor` finds broken or outdated.
    """
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, _):
        rebuilt = _rebuild(output, database)
    if as_json:
        output.document({"messages": rebuilt.messages, "summaries": rebuilt.summaries})
    else:
        output.show(
            f"Indexed {count(rebuilt.messages, 'message')} and "
            f"{count(rebuilt.summaries, 'summary', 'summaries')} anew."
        )


def _rebuild(output: Output, database: Database) -> Rebuilt:
    if not output.progress.is_terminal:
        return search.rebuild(database)
    with Progress(console=output.progress, transient=True) as progress:
        task = progress.add_task("indexing", total=None)
        return search.rebuild(
            database,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )


@contextmanager
def _database(context: typer.Context, *, create: bool) -> Iterator[Database]:
    url = Invocation.of(context).settings().database_url
    if not create and missing_file(url) is not None:
        raise NoDatabaseFile(url)
    database = open_database(url)
    try:
        yield database
    finally:
        database.close()
