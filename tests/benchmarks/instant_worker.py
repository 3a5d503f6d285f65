"""A worker whose summariser takes no time, and that knows a task which does nothing.

    python -m tests.benchmarks.instant_worker --name one --concurrency 8

The same process serves both sides of a comparison; otherwise it is
`tests.support.programs.worker`.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from celery import Celery

from tasks.application import ProcessContext
from tests.benchmarks.summariser import InstantSummariser
from tests.support.programs.worker import run
from workers.runtime.context import WorkerContext

NOTHING = "benchmark.nothing"


class InstantContext(ProcessContext):
    """The worker context of a process, with an instant summariser."""

    def _make(self) -> WorkerContext:
        context = super()._make()
        context.summariser.close()
        # Two processes must not write the same text.
        return replace(context, summariser=InstantSummariser(first=1 + 1000 * os.getpid()))


def add_nothing(app: Celery) -> None:
    """Give `app` the task that does nothing, with the arguments of ours."""

    @app.task(name=NOTHING, shared=False)
    def nothing(job_id: int, **_facts: object) -> None:
        """Nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    options = parser.parse_args()
    run(
        options.name,
        concurrency=options.concurrency,
        kind=InstantContext,
        prepare=add_nothing,
        # A line per task would be a good part of a task that does nothing.
        log_level="WARNING",
        # What the benchmark prepares it works off itself.
        looks=False,
    )


if __name__ == "__main__":
    main()
