"""Log lines about job runs and their passes."""

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
    """A finished run of a job: how long it took, and how many jobs it left due."""

    claim: Claim
    seconds: float
    due: int

    @property
    def ids(self) -> Mapping[str, Field]:
        """The fields at the start of every line about the run."""
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
        """The other fields that are known for any end of the run."""
        claim = self.claim
        return {
            "trigger": claim.trigger,
            "queue": claim.queue,
            "attempt": claim.attempt,
            "seconds": self.seconds,
            "due": self.due,
        }


def log_run(log: logging.Logger, run: Run, passes: Iterable[PassResult]) -> None:
    """Log each pass, then the run."""
    outcomes: list[Outcome] = []
    for one in passes:
        outcomes.append(one.outcome)
        log_event(log, LogEvent.OUTCOME, {**run.ids, **_fields(one)})
    # A last pass that found nothing more to do does not hide the outcome of those before.
    last = [one for one in outcomes if one is not Outcome.NOTHING_DUE] or outcomes
    outcome = last[-1].value if last else "done"
    ended = {**run.ids, **run.facts, "outcome": outcome, "passes": len(outcomes)}
    log_event(log, LogEvent.RUN_ENDED, ended)


def log_crash(log: logging.Logger, run: Run, error: BaseException, retry_ms: int | None) -> None:
    """Log a run that ended with an unexpected error; without `retry_ms` the job is dead."""
    fields: dict[str, Field] = {
        **run.ids,
        **run.facts,
        "error": type(error).__name__,
        "dead": retry_ms is None,
        "retry_seconds": None if retry_ms is None else retry_ms / 1000,
    }
    log_event(log, LogEvent.RUN_CRASHED, fields, level=logging.ERROR)


def log_discarded(log: logging.Logger, claim: Claim) -> None:
    """Log that another worker owns the job now, so this run's results are discarded."""
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
