"""Measure every figure and print them as one table.

    python -m tests.benchmarks [--json] [--only WORD] [--archive without|with|only]

Needs nothing but the test extras: servers are started for the run. Ends with status 1 when a
figure is on the wrong side of its bar, or a benchmark raises an exception. Searching an archive of
a million messages takes longest and is left out unless `--archive` asks for it. A busy machine
makes all times longer and the ratios less certain.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.catalogue import ARCHIVE, BENCHMARKS
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import FULL
from tests.benchmarks.stage import Stage
from tests.support.servers.servers import PostgresServer, RedisServer

_PIPE_COLUMNS = 160
_STYLES = {"ok": "green", "over": "bold red", "under": "bold red", "reported": "dim"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument(
        "--only", metavar="WORD", default="", help=f"of {', '.join(BENCHMARKS)} those with WORD"
    )
    parser.add_argument("--archive", choices=("without", "with", "only"), default="without")
    given = parser.parse_args()
    measured = Measured()
    measured.run([name for name in chosen(given.archive) if given.only in name])
    if given.json:
        document = {
            "seconds": {name: round(took, 1) for name, took in measured.seconds.items()},
            "raised": measured.raised,
            "cores": os.cpu_count(),
            "load": os.getloadavg()[1],
            "figures": [figure.as_json() for figure in measured.figures],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        console = Console()
        if not console.is_terminal:
            console.width = _PIPE_COLUMNS
        console.print(_table(measured.figures, sum(measured.seconds.values())))
        for name, error in measured.raised.items():
            console.print(f"{name} raised {error}", style="bold red", markup=False)
    return int(not measured.passed)


def chosen(archive: str) -> list[str]:
    """Return the names of the benchmarks that run with, without, or only on, the archive."""
    if archive == "only":
        return list(ARCHIVE)
    return [name for name in BENCHMARKS if archive == "with" or name not in ARCHIVE]


@dataclass(slots=True)
class Measured:
    """Figures of a run, the seconds that each benchmark took, and the errors of those that broke
    off."""

    figures: list[Figure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    raised: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every benchmark ended and met its bars, and there was one at all."""
        met = not any(figure.missed for figure in self.figures)
        return bool(self.figures) and met and not self.raised

    def run(self, names: list[str]) -> None:
        """Run benchmarks on servers of their own."""
        with (
            tempfile.TemporaryDirectory(prefix="afterturn-benchmarks-") as directory,
            RedisServer() as redis,
            PostgresServer() as postgres,
        ):
            stage = Stage(Path(directory), redis.url, postgres.url)
            for name in names:
                self.add(name, BENCHMARKS[name](stage, FULL))

    def add(self, name: str, figures: Iterator[Figure]) -> None:
        """Take the figures of one benchmark; an exception is kept and does not stop the others."""
        notices = Console(stderr=True)
        notices.print(f"measuring {name} …", highlight=False)
        started = time.monotonic()
        try:
            self.figures.extend(figures)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has failed
            traceback.print_exc()
            self.raised[name] = f"{type(error).__name__}: {error}"
        self.seconds[name] = time.monotonic() - started
        notices.print(f"  {self.seconds[name]:.1f} s", highlight=False)


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
