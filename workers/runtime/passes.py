"""Run the passes of a claimed job, one commit each, until a commit ends the job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from storage.errors import FenceLost
from storage.jobs import Claim
from storage.outcomes import Outcome
from workers.runtime.commit import Change, Keep, StaleError, commit, hand_back
from workers.runtime.context import WorkerContext
from workers.runtime.lease import keep_lease
from workers.runtime.pass_context import JobRun, PassContext, PassResult
from workers.runtime.run_log import log_discarded
from workers.summariser.contract import Stopped

log = logging.getLogger(__name__)

MOST_STALE = 5
"""Stale plans in a row after which the job is handed back, so that other work goes first."""

MakePass: TypeAlias = Callable[[PassContext], PassResult]
"""Plans, summarises and commits one pass. Raises `StaleError` if the session was changed, and
`Stopped` if the worker stopped waiting for the summariser."""


def run_passes(context: WorkerContext, claim: Claim, make_pass: MakePass) -> JobRun:
    """Run passes until one ends the job, the worker stops, or the lease is lost; return the job
    with their results.

    Database errors are raised; the lease then expires and the job is claimed again.
    """
    with keep_lease(context, claim) as must_stop:
        job = JobRun(context, claim, must_stop)
        try:
            while job.due is None:
                run = PassContext.begin(job)
                # A stopping worker waits for a running request: that is already paid for.
                stops = must_stop() or context.stopping()
                try:
                    result = _HANDED_BACK if stops else make_pass(run)
                except Stopped:
                    result = _HANDED_BACK
                except StaleError:
                    result = commit(run, _note_stale)
                job.results.append(result)
                if job.due is not None and result.outcome.goes_on:
                    job.results.append(_NOTHING_LEFT)
                if result is _HANDED_BACK or _keeps_being_stale(job.results):
                    hand_back(run)
        except FenceLost:
            log_discarded(log, claim)
            job.results.append(_HANDED_BACK)
    return job


_HANDED_BACK = PassResult(Outcome.HANDED_BACK)
_STALE = PassResult(Outcome.STALE)
_NOTHING_LEFT = PassResult(Outcome.NOTHING_DUE, reason="too little is left for another pass")


def _note_stale(_: object) -> Change:
    return Change(_STALE, Keep())


def _keeps_being_stale(results: Sequence[PassResult]) -> bool:
    last = results[-MOST_STALE:]
    return len(last) == MOST_STALE and all(one.outcome is Outcome.STALE for one in last)
