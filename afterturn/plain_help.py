"""Commands whose help shows no type where a flag takes none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))


class Group(TyperGroup):
    """A command with commands below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))


def _flags_without_type(parameters: Iterable[Any]) -> list[Any]:
    found = list(parameters)
    for parameter in found:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
    return found
