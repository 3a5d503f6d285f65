"""How the program ends: exit codes, the error of a command, and what errors mean for people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from typer.exceptions import TyperException

from afterturn.render.words import count
from storage.errors import SessionNotFound, StorageError
from workers.settings.base import SettingsError

IN_FRONT = frozenset({"--config", "--owner", "--debug"})
"""Options of the program, which come before the command."""


class Exit(IntEnum):
    """Exit codes. They are part of the interface and never change their meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIGURATION = 3
    UNAVAILABLE = 4
    NOT_FOUND = 5
    FAULT = 70
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """Return what the code says, in words for `--help`."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.OK: "done",
    Exit.FAILED: "a check, a verdict or a compaction failed",
    Exit.USAGE: "wrong use of the command line, or an input file that cannot be read",
    Exit.CONFIGURATION: "the configuration cannot be used",
    Exit.UNAVAILABLE: "the database or the broker cannot be used",
    Exit.NOT_FOUND: "there is no such session or dead job",
    Exit.FAULT: "a fault in afterturn itself",
    Exit.INTERRUPTED: "interrupted from the keyboard",
}


class ReaderGone(Exception):
    """The reader of the output closed it, as `head` does. The program ends without a word."""


class CommandError(Exception):
    """A command cannot go on. The message says what, where and what to do; `exit` ends the program.

    Raised by the command line itself; errors of the floors below have classes of their own.
    """

    def __init__(self, message: str, exit_: Exit) -> None:
        super().__init__(message)
        self.exit = exit_


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the program ends. `message` holds neither secrets nor text of a conversation; it is
    empty where everything was said already."""

    exit: Exit
    message: str


def explain(error: Exception) -> Failure:
    """Return what `error` means for the person at the terminal."""
    match error:
        case CommandError():
            return Failure(error.exit, str(error))
        case TyperException():
            return Failure(Exit.USAGE, _usage(error))
        case SettingsError():
            return Failure(Exit.CONFIGURATION, _settings(error))
        case SessionNotFound():
            message = (
                f"owner {error.owner!r} has no session {error.session_id!r}; "
                "`afterturn sessions list` shows them, --owner names another owner"
            )
            return Failure(Exit.NOT_FOUND, message)
        case StorageError():
            return Failure(Exit.UNAVAILABLE, _storage(error))
        case _:
            message = (
                f"unexpected {type(error).__name__}; this is a fault in afterturn. "
                "`afterturn --debug …` shows where it happened"
            )
            return Failure(Exit.FAULT, message)


def problems_place(error: SettingsError) -> str:
    """Return where the problems are: in the file, in the environment, or in both."""
    outside = [problem.key.endswith("(environment)") for problem in error.problems]
    if all(outside):
        return "the environment"
    file = "the settings" if error.path is None else str(error.path)
    return f"{file} and the environment" if any(outside) else file


def _settings(error: SettingsError) -> str:
    lines = "".join(f"\n  {problem}" for problem in error.problems)
    return f"{count(len(error.problems), 'problem')} in {problems_place(error)}:{lines}"


def _storage(error: StorageError) -> str:
    # Its text is for gateways, which need to know whether a turn was stored.
    text = str(error).replace("; nothing was stored.", ".")
    # Users are masked wherever the program shows a URL, passwords at every floor.
    return re.sub(r"://[^/@\s]*@", "://***@", text)


def _usage(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "afterturn"
    message = error.format_message().rstrip(".")
    if not message:
        return ""  # The command's help was shown in its place.
    option = getattr(error, "option_name", None)
    if option in IN_FRONT:
        return f"{message}. It goes in front of the command: afterturn {option} …"
    return f"{message}\nTry `{command} --help`."
