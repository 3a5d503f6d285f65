"""Break the product in the ways of `tests.mutations.catalogue`, and see which tests notice.

    python -m tests.mutations [--only WORD] [--check] [--stages module,test,soak] [--json FILE]

Each mutation is made in a copy of the tree. Test files that import the broken module run first,
then what `make test` runs, then what `make soak` runs. Ends with status 1 when a mutation survives
or its text is not found. `--check` only looks for the texts. All stages take hours.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.mutations.catalogue import MUTATIONS, Mutation
from tests.mutations.importers import importers_of
from tests.support.programs.processes import PROJECT

PRODUCT = ("afterturn", "producers", "schedules", "storage", "tasks", "workers")
STAGES = ("module", "test", "soak")
MOST_SECONDS = 4 * 3600.0
_NOT_COPIED = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.db", "secrets")
_PASSED, _NO_TESTS = 0, 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """The stage that noticed a mutation, or `survived`, or `stale` where its text is not there."""

    name: str
    found_by: str
    file: str = ""
    test: str = ""
    seconds: float = 0.0

    @property
    def noticed(self) -> bool:
        return self.found_by in STAGES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="WORD", help="mutations with WORD in the name"
    )
    parser.add_argument("--check", action="store_true", help="only look for the texts")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--processes", default="2", help="of pytest")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there, too")
    given = parser.parse_args()
    chosen = [one for one in MUTATIONS if given.only in one.name]
    if given.check:
        stale = [one for one in chosen if place_of(one, PROJECT) is None]
        for one in stale:
            sys.stdout.write(f"not found exactly once: {one.before!r} ({one.name})\n")
        return int(bool(stale))
    verdicts = list(_judged(chosen, given.stages.split(","), given.processes, given.json))
    Console(width=None if sys.stdout.isatty() else 160).print(_table(verdicts))
    return int(not all(verdict.noticed for verdict in verdicts))


def place_of(mutation: Mutation, project: Path) -> Path | None:
    """Return the file that holds the text of a mutation; None unless it stands there just once."""
    found = [
        path
        for name in PRODUCT
        for path in (project / name).rglob("*.py")
        for _ in range(path.read_text("utf-8").count(mutation.before))
    ]
    return found[0] if len(found) == 1 else None


def _judged(
    mutations: Sequence[Mutation], stages: Sequence[str], processes: str, report: Path | None
) -> Iterator[Verdict]:
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="afterturn-mutants-") as folder:
        copy = Path(folder) / "project"
        shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        for number, mutation in enumerate(mutations, start=1):
            verdict = _judge(mutation, copy, stages, processes, number)
            sys.stderr.write(f"{number}/{len(mutations)} {verdict.found_by}: {mutation.name}\n")
            verdicts.append(verdict)
            if report is not None:
                report.write_text(json.dumps([asdict(one) for one in verdicts], indent=2))
            yield verdict


def _judge(
    mutation: Mutation, copy: Path, stages: Sequence[str], processes: str, number: int
) -> Verdict:
    path = place_of(mutation, copy)
    if path is None:
        return Verdict(mutation.name, "stale")
    original = path.read_text("utf-8")
    file = str(path.relative_to(copy))
    started = time.monotonic()
    _write(path, original.replace(mutation.before, mutation.after), 2 * number)
    try:
        for stage in stages:
            failed = _run(stage, path, copy, processes)
            if failed is not None:
                took = round(time.monotonic() - started, 1)
                return Verdict(mutation.name, stage, file, failed, took)
    finally:
        _write(path, original, 2 * number + 1)
    return Verdict(mutation.name, "survived", file, "", round(time.monotonic() - started, 1))


def _write(path: Path, text: str, age: int) -> None:
    path.write_text(text, "utf-8")
    # Bytecode is known by time and size, and both could be those of the text before.
    moment = time.time() + 10 * age
    os.utime(path, (moment, moment))


def _run(stage: str, path: Path, copy: Path, processes: str) -> str | None:
    """Return the first test of a stage that fails; None where all pass."""
    words = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-n", processes]
    words += ["--dist", "loadgroup"]
    if stage == "module":
        files = importers_of(path, copy)
        if not files:
            return None
        words += map(str, files)
    elif stage == "soak":
        words.append("--soak")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "(did not end)"
    if done.returncode in (_PASSED, _NO_TESTS):
        return None
    failed = [
        line.split(" ", 1)[1].partition(" - ")[0]
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED ", "ERROR "))
    ]
    return failed[0] if failed else f"(status {done.returncode})"


def _table(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="Mutations of the product")
    for heading in ("what it does wrong", "found by", "test", "seconds"):
        table.add_column(heading, overflow="fold")
    for one in verdicts:
        style = "" if one.noticed else "bold red"
        table.add_row(one.name, one.found_by, one.test, f"{one.seconds:.0f}", style=style)
    return table


if __name__ == "__main__":
    sys.exit(main())
