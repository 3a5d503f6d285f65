"""The command line: `afterturn --help`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from typer import rich_utils

from afterturn.commands import dead, guards, queues, recompact, sessions, setup
from afterturn.commands.audit import audit
from afterturn.commands.compact import compact
from afterturn.commands.demo import demo
from afterturn.commands.doctor import doctor
from afterturn.commands.explain import explain
from afterturn.commands.import_ import import_
from afterturn.commands.monitoring import flower, metrics
from afterturn.commands.prune import prune
from afterturn.commands.report import report
from afterturn.commands.runs import runs
from afterturn.commands.search import search
from afterturn.commands.shared import Command, Group
from afterturn.commands.signals import signals
from afterturn.commands.status import status
from afterturn.commands.workers import up, worker
from afterturn.exits import Exit, ReaderGone
from afterturn.exits import explain as explain_failure
from afterturn.installation import OURS, version_of
from afterturn.invocation import Invocation
from afterturn.render.console import Output
from afterturn.telemetry import LogLevel, log_to_stderr

EXIT_CODES = "Exit codes: " + "; ".join(f"{code.value} {code.meaning}" for code in Exit) + "."

app = typer.Typer(
    cls=Group,
    name="afterturn",
    help="Durable workers for the memory of long-running agents.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

log = logging.getLogger(__name__)


def _show_version(given: bool) -> None:
    if given:
        Output().show(f"afterturn {version_of(OURS)}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration file, in place of AFTERTURN_CONFIG and the user's own.",
        ),
    ] = None,
    owner: Annotated[str, typer.Option(help="Owner of the sessions.")] = "local",
    debug: Annotated[
        bool, typer.Option("--debug", help="Log everything, and show where a fault happened.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    log_to_stderr(LogLevel.DEBUG if debug else LogLevel.WARNING)
    context.obj = Invocation(config=config, owner=owner)


# In the order of `--help`.
_COMMANDS: tuple[tuple[str, Callable[..., None] | typer.Typer], ...] = (
    ("demo", demo),
    ("up", up),
    ("worker", worker),
    ("status", status),
    ("sessions", sessions.application),
    ("import", import_),
    ("context", sessions.context),
    ("search", search),
    ("explain", explain),
    ("compact", compact),
    ("recompact", recompact.application),
    ("undo", sessions.undo),
    ("prune", prune),
    ("output", sessions.output),
    ("guards", guards.application),
    ("signals", signals),
    ("runs", runs),
    ("report", report),
    ("audit", audit),
    ("queues", queues.application),
    ("dead", dead.application),
    ("metrics", metrics),
    ("flower", flower),
    ("config", setup.config),
    ("db", setup.db),
    ("doctor", doctor),
)
for _name, _command in _COMMANDS:
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name, cls=Command)(_command)


def run(arguments: list[str] | None = None) -> int:
    """Run a command line (the process's own by default) and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Conversations have characters that a stream's encoding may lack.
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("NO_COLOR"):
        # Help would be dim and bold otherwise.
        rich_utils.COLOR_SYSTEM = None
    try:
        return app(arguments, prog_name="afterturn", standalone_mode=False) or Exit.OK
    except ReaderGone:
        # What is still in the buffer must go nowhere at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except typer.Abort:
        return Exit.INTERRUPTED
    except Exception as error:
        log.debug("the command failed", exc_info=True)
        failure = explain_failure(error)
        if failure.message:
            Output().notice(f"afterturn: {failure.message}")
        return failure.exit


def main() -> None:
    """Entry point of the program."""
    sys.exit(run())
