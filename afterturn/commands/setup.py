"""`config` and `db`: check the configuration, and prepare the tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from afterturn.commands.shared import AsJson, Command, Group
from afterturn.exits import Exit
from afterturn.invocation import Invocation, NoDatabaseFile, missing_file
from afterturn.render.console import Output
from afterturn.render.fields import Field, Fields, document, lines
from afterturn.render.progress import show_progress
from afterturn.render.terms import describe_summarisers, summariser_names
from afterturn.render.words import count
from storage import migrate, search
from storage.engine import Database, open_database
from workers.settings import Settings
from workers.settings.base import SettingsError
from workers.settings.file import load_settings, settings_path
from workers.settings.urls import masked_url

config = typer.Typer(
    cls=Group, help="Check the configuration, or print an example.", no_args_is_help=True
)
db = typer.Typer(cls=Group, help="The tables of the shared database.", no_args_is_help=True)

CONFIGURATION: Fields[tuple[Path, Settings]] = (
    Field("file", "file", lambda one: str(one[0]),
          text=lambda one: str(one[0]) if one[0].exists() else f"none at {one[0]}: defaults hold"),
    Field("exists", None, lambda one: one[0].exists()),
    Field("database_url", "database", lambda one: masked_url(one[1].database_url)),
    Field("broker_url", "broker", lambda one: one[1].broker_url and masked_url(one[1].broker_url),
          text=lambda one: masked_url(one[1].broker_url) if one[1].broker_url else "none"),
    Field("summarisers", "summariser", lambda one: summariser_names(one[1], os.environ),
          text=lambda one: describe_summarisers(one[1], os.environ)),
)  # fmt: skip


@config.command(cls=Command)
def check(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to check, in place of --config.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the configuration as a worker would, and print everything that is wrong with it."""
    output = Output(as_json=as_json)
    path = file or Invocation.of(context).config
    place = settings_path(path)
    try:
        settings = load_settings(path)
        found = document(CONFIGURATION, (place, settings))
    except SettingsError as error:
        if not as_json:
            raise
        problems = [asdict(problem) for problem in error.problems]
        output.document({"file": str(place), "ok": False, "problems": problems})
        raise typer.Exit(Exit.CONFIGURATION) from None
    if as_json:
        output.document({"ok": True, "problems": [], **found})
        return
    output.show(
        lines(CONFIGURATION, (place, settings)),
        "",
        Text("The configuration is good.", style="green"),
    )


@config.command("show-example", cls=Command)
def show_example() -> None:
    """Print a configuration file with every setting at its default, each explained."""
    Output().text(files("afterturn").joinpath("config.example.yaml").read_text("utf-8"))


@db.command(cls=Command)
def upgrade(context: typer.Context, as_json: AsJson = False) -> None:
    """Create the tables, or upgrade them to this version's revision. May be run at any time."""
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


@db.command(cls=Command)
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


@db.command(cls=Command)
def reindex(context: typer.Context, as_json: AsJson = False) -> None:
    """Build a new search index while everything goes on, and drop the old one.

    For one that `afterturn doctor` finds broken or outdated.
    """
    output = Output(as_json=as_json)
    with (
        Invocation.of(context).database() as (database, _),
        show_progress(output.progress, seconds=None) as progress,
    ):
        rebuilt = search.rebuild(
            database, progress=lambda done, total: progress.bar("indexing", done, total)
        )
    if as_json:
        output.document({"messages": rebuilt.messages, "summaries": rebuilt.summaries})
    else:
        output.show(
            f"Indexed {count(rebuilt.messages, 'message')} and "
            f"{count(rebuilt.summaries, 'summary', 'summaries')} anew."
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
