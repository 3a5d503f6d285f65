"""Whether a person wants it: asked at the terminal, or said beforehand."""

from __future__ import annotations

import sys

import typer

from afterturn.console import Output
from afterturn.exits import CommandError, Exit


def check_consent(command: str, *, preview: bool, yes: bool, as_json: bool) -> None:
    """Raise `CommandError` where nobody can be asked and nothing was said beforehand."""
    if preview or yes:
        return
    if as_json:
        raise CommandError(
            f"with --json nothing is asked: add --yes to {command}, or --preview to look only",
            Exit.USAGE,
        )
    if not sys.stdin.isatty():
        raise CommandError(
            f"{command} asks before it acts and there is no terminal to ask at: add --yes, or "
            "--preview to look only",
            Exit.USAGE,
        )


def agreed(output: Output, question: str) -> bool:
    """Ask; tell where nothing is changed. Raises `typer.Abort` after Ctrl-C."""
    given = False
    try:
        given = typer.confirm(question, err=True)
    except typer.Abort:
        output.notice("")
        raise
    finally:
        if not given:
            output.notice("Nothing was changed.")
    return given
