"""Every benchmark runs, once and tiny. What it measures then means nothing and is not looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.catalogue import BENCHMARKS
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import TINY
from tests.benchmarks.stage import Stage


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_and_gives_each_of_its_figures_once(
    name: str, tmp_path: Path, redis_url: str, postgres_url: str
) -> None:
    stage = Stage(tmp_path, redis_url, postgres_url)

    figures = list(BENCHMARKS[name](stage, TINY))

    assert figures
    assert len({(figure.name, figure.database) for figure in figures}) == len(figures)
    assert not list(tmp_path.iterdir()), "a database file was left behind"


def test_a_figure_is_over_only_above_its_bar() -> None:
    assert Figure("a pass", "sqlite", 1.5, "x", 1.5).verdict == "ok"
    assert Figure("a pass", "sqlite", 1.501, "x", 1.5).verdict == "over"
    assert Figure("a pass", "sqlite", 99.0, "ms").verdict == "reported"
