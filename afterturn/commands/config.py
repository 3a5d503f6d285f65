"""`afterturn config check` and `afterturn config show-example`."""

from __future__ import annotations

import os
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.exits import Exit
from afterturn.invocation import Invocation
from afterturn.plain_help import Command, Group
from afterturn.summarisers import describe_summarisers, summariser_names
from afterturn.words import facts
from workers.settings import Settings, load_settings, settings_path
from workers.settings.base import SettingsError
from workers.urls import masked_url

application = typer.Typer(
    cls=Group, help="Check the configuration, or print an example.", no_args_is_help=True
)


@application.command(cls=Command)
def check(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to check, in place of --config.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the configuration as a worker would and say everything that is wrong with it."""
    output = Output(as_json=as_json)
    path = file or Invocation.of(context).config
    place = settings_path(path)
    try:
        settings = load_settings(path)
        names = summariser_names(settings, os.environ)
    except SettingsError as error:
        if not as_json:
            raise
        problems = [asdict(problem) for problem in error.problems]
        output.document({"file": str(place), "ok": False, "problems": problems})
        raise typer.Exit(Exit.CONFIGURATION) from None
    if as_json:
        output.document(
            {
                "file": str(place),
                "ok": True,
                "problems": [],
                "exists": place.exists(),
                "database_url": masked_url(settings.database_url),
                "broker_url": masked_url(settings.broker_url) if settings.broker_url else None,
                "summarisers": names,
            }
        )
        return
    _show(output, place, settings)


@application.command("show-example", cls=Command)
def show_example() -> None:
    """Print a configuration file with every setting at its default, each explained."""
    Output().text(files("afterturn").joinpath("config.example.yaml").read_text("utf-8"))


def _show(output: Output, place: Path, settings: Settings) -> None:
    output.show(
        facts(
            [
                ("file", str(place) if place.exists() else f"none at {place}: defaults hold"),
                ("database", masked_url(settings.database_url)),
                ("broker", masked_url(settings.broker_url) if settings.broker_url else "none"),
                ("summariser", describe_summarisers(settings, os.environ)),
            ]
        ),
        "",
        Text("The configuration is good.", style="green"),
    )
