"""The command line: `afterturn --help`."""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from typer import rich_utils

from afterturn.commands import config, db, dead, guards, queues, recompact, sessions
from afterturn.commands.audit import audit
from afterturn.commands.compact import compact
from afterturn.commands.context import context
from afterturn.commands.demo import demo
from afterturn.commands.doctor import doctor
from afterturn.commands.explain import explain
from afterturn.commands.flower import flower
from afterturn.commands.import_ import import_
from afterturn.commands.metrics import metrics
from afterturn.commands.output import output
from afterturn.commands.prune import prune
from afterturn.commands.report import report
from afterturn.commands.runs import runs
from afterturn.commands.search import search
from afterturn.commands.signals import signals
from afterturn.commands.status import status
from afterturn.commands.undo import undo
from afterturn.commands.up import up
from afterturn.commands.worker import worker
from afterturn.console import Output
from afterturn.exits import Exit, ReaderGone
from afterturn.failures import explain as explain_failure
from afterturn.installation import OURS, version_of
from afterturn.invocation import Invocation
from afterturn.plain_help import Command, Group
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


def _show_version(wanted: bool) -> None:
    if wanted:
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
    owner: Annotated[str, typer.Option(help="Whose sessions are meant.")] = "local",
    debug: Annotated[
        bool, typer.Option("--debug", help="Log everything, and show where a fault happened.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Print the version, and end."
        ),
    ] = False,
) -> None:
    log_to_stderr(LogLevel.DEBUG if debug else LogLevel.WARNING)
    context.obj = Invocation(config=config, owner=owner)


app.command(cls=Command)(demo)
app.command(cls=Command)(up)
app.command(cls=Command)(worker)
app.command(cls=Command)(status)
app.add_typer(sessions.application, name="sessions")
app.command("import", cls=Command)(import_)
app.command(cls=Command)(context)
app.command(cls=Command)(search)
app.command(cls=Command)(explain)
app.command(cls=Command)(compact)
app.add_typer(recompact.application, name="recompact")
app.command(cls=Command)(undo)
app.command(cls=Command)(prune)
app.command(cls=Command)(output)
app.add_typer(guards.application, name="guards")
app.command(cls=Command)(signals)
app.command(cls=Command)(runs)
app.command(cls=Command)(report)
app.command(cls=Command)(audit)
app.add_typer(queues.application, name="queues")
app.add_typer(dead.application, name="dead")
app.command(cls=Command)(metrics)
app.command(cls=Command)(flower)
app.add_typer(config.application, name="config")
app.add_typer(db.application, name="db")
app.command(cls=Command)(doctor)


def run(arguments: list[str] | None = None) -> int:
    """Run a command line (the process's own by default) and give the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Conversations hold characters that a stream's encoding may lack.
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("NO_COLOR"):
        # Help would be dim and bold all the same.
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
