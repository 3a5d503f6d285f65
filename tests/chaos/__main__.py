"""Play a long chaos run and print its tally.

    python -m tests.chaos [--turns 5000] [--kills 200] [--seed N] [--database postgresql|sqlite]

Starts servers of its own. Ends with status 1 when something was lost, done twice or left undone.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from tests.chaos.campaign import report_on_stderr, run
from tests.chaos.form import Form, Kind
from tests.chaos.tally import Tally
from tests.support.servers.servers import PostgresServer, RedisServer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--turns", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=200, help="of workers, with SIGKILL")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--database", choices=[k.value for k in Kind], default="postgresql")
    parser.add_argument("--keep", type=Path, help="a folder for all that the processes write")
    options = parser.parse_args()
    form = Form(Kind(options.database), options.seed, options.turns, options.kills)
    console = Console()
    console.print(f"seed {form.seed}", highlight=False)
    tally = _play(form, options.keep)
    console.print(tally.table())
    for fault in tally.faults:
        console.print(f"- {fault}", highlight=False, markup=False)
    return int(bool(tally.faults))


def _play(form: Form, keep: Path | None) -> Tally:
    with ExitStack() as held:
        if keep is None:
            keep = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="afterturn-chaos-")))
        keep.mkdir(parents=True, exist_ok=True)
        if form.kind is Kind.SQLITE:
            return run(form, keep, report=report_on_stderr)
        redis, postgres = held.enter_context(RedisServer()), held.enter_context(PostgresServer())
        return run(form, keep, redis=redis, postgres=postgres, report=report_on_stderr)


if __name__ == "__main__":
    sys.exit(main())
