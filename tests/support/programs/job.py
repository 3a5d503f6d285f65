"""Work one job in a process of its own, and send itself a signal at a named point of it.

    python -m tests.support.programs.job URL JOB --model MODEL_URL --at POINT --signal SIGKILL

It prints the names of the outcomes and ends with status 0 where it lives on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from storage.engine import open_database
from tests.support.sessions.play import TODAY
from workers.policy.failures import RetryPolicy
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Worked, work
from workers.settings import CompressionSettings, Settings, SettingsSource
from workers.summariser.client import OpenAISummariser


def command(
    url: str, job: int, model_url: str, compression: Mapping[str, Any], *, at: str, signal_name: str
) -> list[str]:
    """Return the words that start this program."""
    words = ["-m", __name__, url, str(job), "--model", model_url, "--at", at]
    return [*words, "--signal", signal_name, "--compression", json.dumps(compression)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("job", type=int)
    parser.add_argument("--model", required=True)
    parser.add_argument("--at", default="")
    parser.add_argument("--signal", default="SIGKILL")
    parser.add_argument("--compression", type=json.loads, default={})
    options = parser.parse_args()
    settings = Settings(
        database_url=options.url, compression=CompressionSettings(**options.compression)
    )
    summariser = OpenAISummariser(
        model="test-model", base_url=options.model, api_key="unused", poll_seconds=0.01
    )
    with closing(open_database(options.url)) as database, closing(summariser):
        context = WorkerContext(
            database=database,
            settings=SettingsSource.fixed(settings),
            summariser=summariser,
            retry=RetryPolicy(base_seconds=0.0, longest_seconds=0.0),
            today=lambda: TODAY,
            failpoint=_signal_at(options.at, signal.Signals[options.signal]),
        )
        outcome = work(context, options.job)
    passes = outcome.passes if isinstance(outcome, Worked) else ()
    names = [type(outcome).__name__, *(one.outcome.value for one in passes)]
    sys.stdout.write(f"outcome {' '.join(names)} end\n")


def _signal_at(point: str, what: signal.Signals) -> Callable[[str], None]:
    """Send this process a signal when it reaches the point for the first time."""
    sent = False

    def failpoint(reached: str) -> None:
        nonlocal sent
        if reached == point and not sent:
            sent = True
            os.kill(os.getpid(), what)

    return failpoint


if __name__ == "__main__":
    main()
