"""A Celery worker as it is deployed, for tests.

    python -m tests.support.programs.worker --name one

DATABASE_URL, BROKER_URL and AFTERTURN_CONFIG say what it works with. Prints READY when it takes
jobs; ends with status 0 after SIGTERM.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from celery import Celery
from celery.signals import worker_ready

from tasks.application import ProcessContext, make_app
from tasks.lifecycle import StartScan, StopFlag
from tasks.names import QUEUES
from workers.settings import SettingsSource


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--concurrency", type=int, default=4)
    options = parser.parse_args()
    run(options.name, concurrency=options.concurrency)


def run(
    name: str,
    *,
    concurrency: int,
    kind: Callable[..., ProcessContext] = ProcessContext,
    prepare: Callable[[Celery], None] | None = None,
    log_level: str = "INFO",
    looks: bool = True,
) -> None:
    """Be a worker until SIGTERM; `kind` makes what its jobs work with, `prepare` may add to the
    application, `looks` is whether it looks at its start for what is due."""
    source = SettingsSource.following()
    worker_context = kind(source, StopFlag())
    worker_context()
    app = make_app(source.current().broker_url, worker_context)
    if prepare is not None:
        prepare(app)
    worker = app.Worker(
        hostname=f"{name}@",
        pool="threads",
        concurrency=concurrency,
        queues=list(QUEUES),
        loglevel=log_level,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    start_scan = StartScan(app, worker_context)
    if not looks:
        start_scan.close()
    worker_ready.connect(_say_ready)
    try:
        worker.start()
    finally:
        start_scan.close()
        worker_context.close()
    sys.exit(worker.exitcode or 0)


def _say_ready(**_facts: object) -> None:
    sys.stdout.write("READY\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
