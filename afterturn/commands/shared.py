"""What several commands share: options, names and ages, consent, following, plain help."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from afterturn.exits import CommandError, Exit
from afterturn.render.console import Output
from afterturn.telemetry import LogFormat

T = TypeVar("T")

FOLLOW_SECONDS = 1.0
PAGE = 500
"""Things that are read at once while following."""

_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output.")]
AllOwners = Annotated[bool, typer.Option("--all-owners", help="Sessions of every owner.")]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with new ones until Ctrl-C.")
]  # fmt: skip
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it acts.")]
Preview = Annotated[
    bool, typer.Option("--preview", help="Show what would be done, and change nothing.")
]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many of the last ones.")]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with lines NAME:PASSWORD: who has access. Needed for other hosts.",
    ),
]
TlsCertificate = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Certificate (PEM) to answer with, over TLS.")
]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key (PEM).")]
LogFormatOption = Annotated[
    LogFormat, typer.Option(help="text for people; json, one object a line, for programs.")
]


class Command(TyperCommand):
    """A command whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))


def _flags_without_type(parameters: Iterable[Any]) -> list[Any]:
    found = list(parameters)
    for parameter in found:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
    return found


def age_ms(text: str, option: str) -> int:
    """Return the milliseconds of an age such as `90d`.

    Raises `CommandError` that names `option`.
    """
    found = re.fullmatch(r"(\d{1,6})\s*([smhdw])", text.strip().lower())
    if found is None:
        raise CommandError(
            f"{option} {text!r} is no age; write a number and s, m, h, d or w, such as 90d",
            Exit.USAGE,
        )
    return int(found[1]) * _UNITS[found[2]]


def check_names(noun: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise `CommandError` for the first name that is not known, with what is."""
    for name in names:
        if name not in known:
            raise CommandError(f"there is no {noun} {name!r}, {near(name, known)}", Exit.USAGE)


def near(name: str, known: Collection[str]) -> str:
    """Return the known names in words, and which of them was probably meant."""
    if not known:
        return "none is known"
    close = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"known are {', '.join(known)}{hint}"


def check_consent(
    command: str, *, preview: bool, yes: bool, as_json: bool, option: str = "--preview"
) -> None:
    """Raise `CommandError` if nobody can be asked and consent was not given beforehand.

    `option` is the one that changes nothing.
    """
    if preview or yes:
        return
    if as_json:
        raise CommandError(
            f"with --json nothing is asked: add --yes to {command}, or {option} to change nothing",
            Exit.USAGE,
        )
    if not sys.stdin.isatty():
        raise CommandError(
            f"{command} asks before it acts and there is no terminal to ask at: add --yes, or "
            f"{option} to change nothing",
            Exit.USAGE,
        )


def agreed(output: Output, question: str) -> bool:
    """Ask a person; says so if nothing is changed. Raises `typer.Abort` after Ctrl-C."""
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


def follow(
    read: Callable[[int], Sequence[T]],
    show: Callable[[T], None],
    *,
    last: int,
    number: Callable[[T], int],
) -> None:
    """Show what `read` returns after the last number, at most `PAGE` at once, until Ctrl-C."""
    try:
        while True:
            found = read(last)
            for one in found:
                show(one)
                last = number(one)
            if len(found) < PAGE:
                time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        return
