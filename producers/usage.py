"""What a provider reported of one request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


class UsageError(ValueError):
    """A usage report cannot be read. Nothing of its turn was stored."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; `revision` is that of the context that was sent.

    Reasoning tokens belong to `completion_tokens` and never to the prompt (F157).
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    revision: int | None = None

    @classmethod
    def of(cls, report: Usage | Mapping[str, Any] | None) -> Usage | None:
        """Read a report: one of these, or a mapping such as the `usage` of a chat completion.

        Raises `UsageError` for a count that is no whole number from 0 up.
        """
        if report is None:
            return None
        given = asdict(report) if isinstance(report, Usage) else report
        counts = {name: _count(given, name) for name in cls.__dataclass_fields__}
        return cls(**counts)

    def dump(self) -> str:
        """JSON of what is known."""
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None})


def _count(report: Mapping[str, Any], name: str) -> int | None:
    value = report.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"usage.{name}: must be a whole number from 0 up, is {value!r:.40}")
    return value
