"""The base of every block of settings: strictness, units, words for allowed values, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from storage.errors import AfterturnError


@dataclass(frozen=True, slots=True)
class UnitName:
    """The unit of a number, as annotation on its field: `seconds`, `tokens`."""

    name: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """The words for the allowed values and the default, where deriving them would mislead."""

    text: str
    default: str = ""


Seconds = Annotated[float, UnitName("seconds")]
Tokens = Annotated[int, UnitName("tokens")]
Share = Annotated[float, Field(ge=0.05, le=0.95)]
"""A share of a window. The upper bound keeps every threshold below the usable window."""


class Block(BaseModel):
    """A frozen block of settings that refuses unknown keys and converts nothing but int to float.

    A key without a value (`compression:` with every line below it commented out) counts as left
    out where the default is a block, a list, a mapping or made at run time.
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _nothing_is_left_out(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.field_name is not None:
            field = cls.model_fields[info.field_name]
            if field.default_factory is not None:
                return field.get_default(call_default_factory=True, validated_data=info.data)
        return value


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in the settings, safe to show: no value in it is a secret.

    `key` is the dotted path of the setting, or the environment variable. `given` is the value as
    text, or None where there is none to show. `allowed` describes the correct values, `nearest` is
    the known key that is closest to an unknown one, `line` counts from 1 within the file.
    """

    key: str
    message: str
    given: str | None = None
    allowed: str | None = None
    nearest: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        parts = [f"{self.message} (given: {self.given})" if self.given else self.message]
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.nearest:
            parts.append(f"nearest known key: {self.nearest}")
        text = "; ".join(parts)
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.key}: {text}" if self.key else f"{place}{text}"


class SettingsError(AfterturnError):
    """Settings that cannot be used. Correct what `problems` lists and start again.

    `problems` holds all of them in the order of the file, `path` the file they came from, if any.
    """

    def __init__(self, problems: tuple[Problem, ...], path: Path | None = None) -> None:
        where = "in the settings" if path is None else f"in {path}"
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{count} {where}:{lines}")
        self.problems = problems
        self.path = path
