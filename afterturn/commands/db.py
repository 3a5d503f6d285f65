"""`afterturn db upgrade` and `afterturn db current`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.database_file import NoDatabaseFile, missing_file
from afterturn.invocation import Invocation
from afterturn.plain_help import Command, Group
from storage import migrate
from storage.engine import Database, open_database
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
