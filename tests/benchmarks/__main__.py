"""Measure every figure and print them as one table.

    python -m tests.benchmarks [--json] [--only WORD]

Needs nothing but the test extras: servers are started for the run. Ends with status 1 when a
figure is on the wrong side of its bar. A busy machine makes all times longer and the ratios less
certain.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.catalogue import BENCHMARKS
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import FULL
from tests.benchmarks.stage import Stage
from tests.servers import PostgresServer, RedisServer

_PIPE_COLUMNS = 160
_STYLES = {"ok": "green", "over": "bold red", "under": "bold red", "reported": "dim"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument(
        "--only", metavar="WORD", default="", help=f"of {', '.join(BENCHMARKS)} those with WORD"
    )
    given = parser.parse_args()
    started = time.monotonic()
    figures = list(_measured(given.only))
    seconds = time.monotonic() - started
    if given.json:
        document = {
            "seconds": round(seconds, 1),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[1],
            "figures": [figure.as_json() for figure in figures],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        console = Console()
        if not console.is_terminal:
            console.width = _PIPE_COLUMNS
        console.print(_table(figures, seconds))
    return int(any(figure.missed for figure in figures))


def _measured(word: str) -> Iterator[Figure]:
    notices = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="afterturn-benchmarks-") as directory,
        RedisServer() as redis,
        PostgresServer() as postgres,
    ):
        stage = Stage(Path(directory), redis.url, postgres.url)
        for name, benchmark in BENCHMARKS.items():
            if word in name:
                notices.print(f"measuring {name} …", highlight=False)
                yield from benchmark(stage, FULL)


def _table(figures: list[Figure], seconds: float) -> Table:
    table = Table(
        title="Figures of afterturn",
        caption=f"measured in {seconds:.0f} seconds on {os.cpu_count()} cores, "
        f"load of the last five minutes {os.getloadavg()[1]:.1f}",
    )
    for heading in ("figure", "database"):
        table.add_column(heading)
    for heading in ("measured", "must reach"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("verdict", "made from"):
        table.add_column(heading)
    for figure in figures:
        table.add_row(
            figure.name,
            figure.database,
            f"{figure.value:.2f} {figure.unit}",
            figure.must_reach,
            f"[{_STYLES[figure.verdict]}]{figure.verdict}[/]",
            figure.detail,
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
