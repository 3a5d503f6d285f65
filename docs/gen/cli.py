"""The page of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from typer.main import get_command

from docs.gen.markdown import code, page, prose, table
from docs.gen.sources import command_line

PROGRAM = "afterturn"

_PLAIN_NAMES = {int: "NUMBER", float: "NUMBER", str: "TEXT"}


def cli() -> str:
    """Return the page of every command with its arguments and options."""
    root: Any = get_command(command_line)
    return page(
        "Command line",
        "`afterturn --help` shows this on a terminal. Every command that shows something has "
        "`--json` where a program may read it. How commands end is in [Exit codes](exit-codes.md).",
        "Options of the program come before the command: `afterturn --owner telegram status`.",
        _parameters(root),
        *_commands(root, PROGRAM),
    )


def paths() -> set[str]:
    """Return every command with the words in front of it, such as `afterturn queues drain`."""
    root: Any = get_command(command_line)
    return {PROGRAM, *(path for path, _ in _walk(root, PROGRAM))}


def _walk(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in getattr(group, "commands", {}).items():
        yield f"{path} {name}", command
        yield from _walk(command, f"{path} {name}")


def _commands(root: Any, program: str) -> Iterator[str]:
    for path, command in _walk(root, program):
        level = "##" if path.count(" ") == 1 else "###"
        yield "\n\n".join(
            part for part in (f"{level} {path}", prose(command.help), _parameters(command)) if part
        )


def _parameters(command: Any) -> str:
    rows = [
        (_name(one), prose(getattr(one, "help", "")), _default(one))
        for one in command.params
        if one.name not in ("help", "install_completion", "show_completion")
    ]
    return table(("argument or option", "meaning", "default"), rows) if rows else ""


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return code(parameter.metavar or parameter.name.upper())
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag else f" {_value(parameter)}"
    return code(f"{names}{value}")


def _value(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(one.value) for one in kind)
    return _PLAIN_NAMES.get(kind, "VALUE")


def _default(parameter: Any) -> str:
    default = parameter.default
    if parameter.required or default in (None, False, True, "", (), []) or callable(default):
        return "required" if parameter.required else ""
    return code(str(getattr(default, "value", default)))
