"""What is wrong with a configuration.

SettingsError            the settings cannot be used; lists every problem
└── EndpointError        the environment lacks the key of a configured provider (endpoints.py)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from storage.errors import AfterturnError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, fit to be shown: no value in it is a secret.

    `key` is the dotted path of the setting, or the environment variable. `given` is the value as
    text, or None where there is none to show. `allowed` says in words what would be right,
    `nearest` is the known key next to an unknown one, `line` counts from 1 within the file.
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
    """The settings cannot be used. Correct what `problems` lists and start again.

    `problems` holds all of them in the order of the file, `path` the file they came from, if any.
    """

    def __init__(self, problems: tuple[Problem, ...], path: Path | None = None) -> None:
        where = "in the settings" if path is None else f"in {path}"
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{count} {where}:{lines}")
        self.problems = problems
        self.path = path
