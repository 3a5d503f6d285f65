"""How long a gateway's import takes, beside that of the library that it stores with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import Stage
from tests.benchmarks.timing import by_turns
from tests.support.programs.processes import PROJECT, clean_environment
from tests.support.sessions.gateways import migrated

MOST_IMPORT = 1.6
"""Times `import sqlalchemy.orm`."""

_IMPORT = "from afterturn import Gateway"
_BASE = "import sqlalchemy.orm"
_TIMED = (
    "import time\nstarted = time.perf_counter()\n{}\nprint(1000 * (time.perf_counter() - started))"
)


def imports(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Fresh interpreters import the gateway and SQLAlchemy's ORM by turns; a third opens one."""
    imported, *_ = by_turns(
        partial(_run, _IMPORT), partial(_run, _BASE), rounds=scale.repeats, warm_up=1
    )
    yield Figure(
        "import of Gateway / of sqlalchemy.orm",
        "none",
        imported.ratio,
        "x",
        MOST_IMPORT,
        str(imported),
    )
    with stage.database("sqlite") as url:
        with migrated(url):
            pass
        program = f"{_IMPORT}, Settings\ngateway = Gateway(Settings(database_url={url!r}))"
        opened, *_ = by_turns(
            partial(_run, program), partial(_run, _BASE), rounds=scale.repeats, warm_up=1
        )
    yield Figure(
        "import and open a Gateway / import of sqlalchemy.orm",
        "sqlite",
        opened.ratio,
        "x",
        detail=str(opened),
    )


def _run(program: str) -> tuple[float, ...]:
    """Return the milliseconds that a program takes in an interpreter of its own."""
    ended = subprocess.run(
        [sys.executable, "-c", _TIMED.format(program)],
        env={**clean_environment(), "PYTHONPATH": str(PROJECT)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return (float(ended.stdout),)
