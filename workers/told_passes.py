"""How runs of jobs and outcomes of passes read in the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from storage.jobs import Claim
from workers.telemetry.log_lines import Field, LogEvent, log_event

_NOTHING_LEFT = "nothing_left"
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_FIGURES = ("rows", "tokens_before", "tokens_after", "reason", "model")
"""Each is a figure, a name or words of ours."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a job that has ended, how long it took, and how many jobs it leaves due."""

    claim: Claim
    seconds: float
    due: int

    @property
    def ids(self) -> Mapping[str, Field]:
        """What every line about it begins with."""
        claim = self.claim
        return {
            "run": claim.run,
            "event_id": claim.correlation.get("event"),
            "owner": claim.owner,
            "session": claim.session,
            "kind": claim.kind.value,
        }

    @property
    def facts(self) -> Mapping[str, Field]:
        """The rest of what is known whatever became of it."""
        claim = self.claim
        return {
            "trigger": claim.trigger,
            "queue": claim.queue,
            "attempt": claim.attempt,
            "seconds": self.seconds,
            "due": self.due,
        }


def tell_run(log: logging.Logger, run: Run, passes: Iterable[object]) -> None:
    """Tell of each pass and of the run that they were made in."""
    names: list[Field] = []
    for one in passes:
        names.append(outcome_name(one))
        fields = {**run.ids, "outcome": names[-1], **outcome_fields(one)}
        log_event(log, LogEvent.OUTCOME, fields)
    # That nothing is left for one more pass says nothing of those before.
    done = [name for name in names if name != _NOTHING_LEFT] or names or ["done"]
    ended = {**run.ids, **run.facts, "outcome": done[-1], "passes": len(names)}
    log_event(log, LogEvent.RUN_ENDED, ended)


def tell_crash(log: logging.Logger, run: Run, error: BaseException, retry_ms: int | None) -> None:
    """Tell of a run that ended with an error; without `retry_ms` the job is dead."""
    fields: dict[str, Field] = {
        **run.ids,
        **run.facts,
        "error": type(error).__name__,
        "dead": retry_ms is None,
        "retry_seconds": None if retry_ms is None else retry_ms / 1000,
    }
    log_event(log, LogEvent.RUN_CRASHED, fields, level=logging.ERROR)


def tell_discarded(log: logging.Logger, claim: Claim) -> None:
    """Tell that somebody else has the job by now."""
    fields = {"run": claim.run, "kind": claim.kind.value, "session": claim.session}
    log_event(log, LogEvent.RUN_DISCARDED, fields, level=logging.WARNING)


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
