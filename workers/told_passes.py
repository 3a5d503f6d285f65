"""How outcomes of passes read in the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from storage.jobs import Claim
from workers.log_lines import Field, LogEvent, tell

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_FIGURES = ("rows", "tokens_before", "tokens_after", "reason", "model")
"""Each is a figure, a name or words of ours."""


def outcome_name(outcome: object) -> str:
    """`NothingLeft` as `nothing_left`."""
    return _CAPITAL.sub("_", type(outcome).__name__).lower()


def outcome_fields(outcome: Any) -> Mapping[str, Field]:
    """The figures of an outcome, as far as it has them."""
    of = getattr(outcome, "failed", None) or outcome
    fields: dict[str, Field] = {name: getattr(of, name, None) for name in _FIGURES}
    error_class = getattr(of, "error_class", None)
    delay_ms = getattr(of, "delay_ms", None)
    return {
        **fields,
        "error_class": None if error_class is None else error_class.value,
        "detail": getattr(of, "detail", None) or None,
        "retry_seconds": None if delay_ms is None else delay_ms / 1000,
    }


def tell_discarded(log: logging.Logger, claim: Claim) -> None:
    """Tell that somebody else has the job by now."""
    fields = {"run": claim.run, "kind": claim.kind.value, "session": claim.session}
    tell(log, LogEvent.RUN_DISCARDED, fields, level=logging.WARNING)
