"""The README is short, and what it shows works."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from docs.gen.sources import describe_settings
from tests.support.programs.processes import Processes
from tests.support.sessions.pages import PROJECT, page

README = page("README.md")
MOST_LINES = 200


def test_it_is_short() -> None:
    assert len(README.text.splitlines()) <= MOST_LINES


def test_the_gateway_runs_and_shows_what_it_says(tmp_path: Path, processes: Processes) -> None:
    (program,) = README.blocks("python")
    promised = next(block for block in README.blocks("text") if block.startswith("Noted"))
    path = tmp_path / "gateway.py"
    path.write_text(program, encoding="utf-8")
    for again in (False, True):
        child = processes.python(
            str(path), env={"DATABASE_URL": f"sqlite:///{tmp_path / 'readme.db'}"}
        )
        assert child.wait() == 0, child.output
        if not again:
            assert child.output == promised


def test_every_setting_is_read_by_something() -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("afterturn", "workers", "tasks", "producers", "schedules", "storage")
        for path in (PROJECT / folder).rglob("*.py")
        if not path.name.endswith("settings.py") and path.parent.name != "settings"
    )
    names = {row.key.rpartition(".")[2] for row in describe_settings()}
    assert {name for name in names if not re.search(rf"\.{re.escape(name)}\b", code)} == set()


@pytest.mark.parametrize("target", ["demo", "test", "lint", "up", "bench", "secrets", "docs"])
def test_make_knows_its_targets(target: str) -> None:
    if subprocess.run(["make", "--version"], capture_output=True, check=False).returncode == 0:
        asked = subprocess.run(
            ["make", "-n", target], cwd=PROJECT, capture_output=True, text=True, check=False
        )
        assert asked.returncode == 0, asked.stderr
    assert f"make {target}" in README.text
