"""A worker of a chaos run in a process of its own.

    python -m tests.chaos.worker --name w0.1 --doom FILE [--skew SECONDS] [--embedded]

DATABASE_URL, BROKER_URL and AFTERTURN_CONFIG say what it works with. Prints READY when it takes
jobs; ends with status 0 after SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tests.chaos.skew import set_clock_ahead


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--doom", type=Path, required=True)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--embedded", action="store_true")
    options = parser.parse_args()
    if options.skew:
        set_clock_ahead(options.skew)
    if options.embedded:
        _run_embedded(options.doom)
    else:
        _run_celery(options.name, options.doom)


def _run_celery(name: str, doom: Path) -> None:
    from tests.chaos.doom import doomed_context
    from tests.support.programs.worker import run

    run(name, concurrency=4, kind=doomed_context(doom))


def _run_embedded(doom: Path) -> None:
    import logging

    from tasks import embedded
    from tests.chaos.doom import doomed_context
    from workers.settings import SettingsSource

    logging.basicConfig(level=logging.INFO)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The one thing of it that a program from outside cannot choose.
    vars(embedded)["ProcessContext"] = doomed_context(doom)
    worker = embedded.EmbeddedWorker(SettingsSource.following())
    try:
        worker.start()
        sys.stdout.write("READY\n")
        sys.stdout.flush()
        worker.wait()
        sys.exit("the worker has ended by itself")
    except KeyboardInterrupt:
        worker.stop()


if __name__ == "__main__":
    main()
