"""From an exception to an exit code and the lines that explain it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from typer.exceptions import TyperException

from afterturn.exits import CommandError, Exit
from afterturn.words import count
from storage.errors import SessionNotFound, StorageError
from workers.settings.base import SettingsError

IN_FRONT = frozenset({"--config", "--owner", "--debug"})
"""Options of the program, which come before the command."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the program ends. `message` holds neither secrets nor text of a conversation; it is
    empty where everything was said already."""

    exit: Exit
    message: str


def explain(error: Exception) -> Failure:
    """Give the failure that `error` means for whoever sits at the terminal."""
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
    """Where the problems are: in the file, in the environment, or in both."""
    outside = [problem.key.endswith("(environment)") for problem in error.problems]
    if all(outside):
        return "the environment"
    file = "the settings" if error.path is None else str(error.path)
    return f"{file} and the environment" if any(outside) else file


def _settings(error: SettingsError) -> str:
    lines = "".join(f"\n  {problem}" for problem in error.problems)
    return f"{count(len(error.problems), 'problem')} in {problems_place(error)}:{lines}"


def _storage(error: StorageError) -> str:
    # It is written for gateways, which want to know what became of a turn.
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
