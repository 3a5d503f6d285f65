"""Log lines about runs of jobs and their passes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from storage.jobs import Claim
from storage.outcomes import CHANGED_VIEW, Outcome
from workers.runtime.pass_context import PassResult
from workers.telemetry.log_lines import Field, LogEvent, log_event


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a job that has ended, how long it took, and how many jobs it leaves due."""

    claim: Claim
    seconds: float
    due: int

    @property
    def ids(self) -> Mapping[str, Field]:
        """The fields that every line about the run begins with."""
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
        """The other fields that are known however the run ended."""
        claim = self.claim
        return {
            "trigger": claim.trigger,
            "queue": claim.queue,
            "attempt": claim.attempt,
            "seconds": self.seconds,
            "due": self.due,
        }


def log_run(log: logging.Logger, run: Run, passes: Iterable[PassResult]) -> None:
    """Log each pass and the run that they were made in."""
    outcomes: list[Outcome] = []
    for one in passes:
        outcomes.append(one.outcome)
        log_event(log, LogEvent.OUTCOME, {**run.ids, **_fields(one)})
    # That nothing is left for one more pass says nothing of those before.
    last = [one for one in outcomes if one is not Outcome.NOTHING_DUE] or outcomes
    outcome = last[-1].value if last else "done"
    ended = {**run.ids, **run.facts, "outcome": outcome, "passes": len(outcomes)}
    log_event(log, LogEvent.RUN_ENDED, ended)


def log_crash(log: logging.Logger, run: Run, error: BaseException, retry_ms: int | None) -> None:
    """Log a run that ended with an unforeseen error; without `retry_ms` the job is dead."""
    fields: dict[str, Field] = {
        **run.ids,
        **run.facts,
        "error": type(error).__name__,
        "dead": retry_ms is None,
        "retry_seconds": None if retry_ms is None else retry_ms / 1000,
    }
    log_event(log, LogEvent.RUN_CRASHED, fields, level=logging.ERROR)


def log_discarded(log: logging.Logger, claim: Claim) -> None:
    """Log that another worker has the job by now."""
    fields = {"run": claim.run, "kind": claim.kind.value, "session": claim.session}
    log_event(log, LogEvent.RUN_DISCARDED, fields, level=logging.WARNING)


def _fields(result: PassResult) -> Mapping[str, Field]:
    changed = result.outcome in CHANGED_VIEW
    return {
        "outcome": result.outcome.value,
        "rows": result.rows or None,
        "tokens_before": result.tokens_before if changed else None,
        "tokens_after": result.tokens_after if changed else None,
        "reason": result.reason or None,
        "model": result.model or None,
        "error_class": None if result.error_class is None else result.error_class.value,
        "detail": result.detail or None,
        "retry_seconds": result.delay_ms / 1000 if result.outcome is Outcome.FAILED else None,
    }
