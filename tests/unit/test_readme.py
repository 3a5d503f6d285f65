"""What the README says is so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from afterturn.metrics import catalogue
from tests.processes import Processes
from workers.settings.describe import as_markdown, describe_settings
from workers.telemetry import log_lines

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_configuration_table_is_that_of_the_code() -> None:
    table = README.partition("<!-- settings -->\n")[2].partition("<!-- /settings -->")[0]
    assert table == as_markdown(describe_settings())


def test_the_metrics_and_log_lines_are_those_of_the_code() -> None:
    assert between("metrics") == catalogue.as_markdown()
    assert between("log lines") == log_lines.as_markdown()


def between(name: str) -> str:
    return README.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]


def test_every_setting_is_read_by_something() -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("afterturn", "workers", "tasks", "producers", "schedules", "storage")
        for path in (PROJECT / folder).rglob("*.py")
        if not path.name.endswith("settings.py") and path.parent.name != "settings"
    )
    names = {row.key.rpartition(".")[2] for row in describe_settings()}
    assert {name for name in names if not re.search(rf"\.{re.escape(name)}\b", code)} == set()


def test_the_ten_lines_of_a_gateway_run(tmp_path: Path, processes: Processes) -> None:
    example, *_ = blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
    program = tmp_path / "gateway.py"
    program.write_text(example + "\nprint(receipt)\n", encoding="utf-8")
    child = processes.python(
        str(program), env={"DATABASE_URL": f"sqlite:///{tmp_path / 'readme.db'}"}
    )
    assert child.wait() == 0, child.output
    assert "event_id='update-90210', turn=1, first_position=0, rows=2" in child.output


@pytest.mark.parametrize("target", ["demo", "test", "lint", "up", "bench", "secrets"])
def test_make_knows_its_targets(target: str) -> None:
    if subprocess.run(["make", "--version"], capture_output=True, check=False).returncode == 0:
        asked = subprocess.run(
            ["make", "-n", target], cwd=PROJECT, capture_output=True, text=True, check=False
        )
        assert asked.returncode == 0, asked.stderr
    assert f"make {target}" in README
