"""Every benchmark runs, once and tiny: what it measures then means nothing and is not looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import Measured, chosen
from tests.benchmarks.catalogue import BENCHMARKS
from tests.benchmarks.figure import Figure
from tests.benchmarks.handwritten import hand_written, row_values, turn_values
from tests.benchmarks.scale import TINY
from tests.benchmarks.stage import Stage
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import playing

QUICK = ("micro_pass", "finalize_turn", "load_context", "rates", "walk", "size")


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.soak) for name in BENCHMARKS],
)
def test_a_benchmark_runs_and_gives_each_of_its_figures_once(
    name: str, tmp_path: Path, redis_url: str, postgres_url: str
) -> None:
    stage = Stage(tmp_path, redis_url, postgres_url)

    figures = list(BENCHMARKS[name](stage, TINY))

    assert figures
    assert len({(figure.name, figure.database) for figure in figures}) == len(figures)
    assert not list(tmp_path.iterdir()), "a database file was left behind"


def test_a_missed_bar_or_an_exception_fails_the_run_and_the_others_go_on() -> None:
    def raising() -> Iterator[Figure]:
        yield Figure("before", "sqlite", 1.0, "x")
        raise AssertionError("it broke off")

    measured = Measured()
    assert not measured.passed, "nothing was measured"
    measured.add("fine", iter([Figure("a pass", "sqlite", 1.0, "x", 1.2)]))
    assert measured.passed
    measured.add("raising", raising())
    assert measured.raised == {"raising": "AssertionError: it broke off"}
    assert not measured.passed
    measured.add("another", iter([Figure("another", "sqlite", 1.0, "x")]))
    assert [figure.name for figure in measured.figures] == ["a pass", "before", "another"]
    missed = Measured()
    missed.add("slow", iter([Figure("a pass", "sqlite", 1.3, "x", 1.2)]))
    assert not missed.passed


def test_the_archive_is_measured_on_demand_alone() -> None:
    assert chosen("only") == ["search_speed"]
    assert "search_speed" not in chosen("without")
    assert set(chosen("with")) == set(BENCHMARKS)


def test_a_figure_is_over_only_above_its_bar() -> None:
    assert Figure("a pass", "sqlite", 1.5, "x", 1.5).verdict == "ok"
    assert Figure("a pass", "sqlite", 1.501, "x", 1.5).verdict == "over"
    assert Figure("a pass", "sqlite", 99.0, "ms").verdict == "reported"
    assert Figure("a pass", "sqlite", 99.0, "ms").must_reach == ""


def test_a_figure_that_must_reach_its_bar_is_under_only_below_it() -> None:
    reached = Figure("a rate", "sqlite", 0.25, "x", least=0.25)
    assert (reached.verdict, reached.missed, reached.must_reach) == ("ok", False, "≥ 0.25 x")
    below = Figure("a rate", "sqlite", 0.249, "x", least=0.25)
    assert (below.verdict, below.missed) == ("under", True)
    assert Figure("a pass", "sqlite", 2.0, "x", 1.5).missed


def test_a_turn_by_hand_stores_what_finalize_turn_stores(database_url: str) -> None:
    messages = turn(1)
    with playing(database_url) as play:
        ours, hands = (play.gateway.open_session(name) for name in ("ours", "by hand"))
        play.gateway.finalize_turn(ours, messages)
        with closing(hand_written(play.database.dialect, database_url)) as hand:
            hand.store(hands.key, turn_values(messages), [row_values(one) for one in messages])

        for query in (
            "SELECT position, kind, role, origin, opens_turn, tokens, active, compacted, call_ids,"
            " answer_ids, content, fields FROM messages WHERE session_key = :key ORDER BY position",
            "SELECT next_position, turns, turn_open, live_messages, live_tokens, revision,"
            " decided_turns, idle_since IS NULL FROM sessions WHERE key = :key",
            "SELECT turn, first_position, rows, usage, revision FROM turn_events"
            " WHERE session_key = :key",
            "SELECT owner, kind, state, queue, trigger, priority, attempt, again FROM jobs"
            " WHERE session_key = :key",
        ):
            stored = play.rows(query, key=ours.key)
            assert stored
            assert play.rows(query, key=hands.key) == stored
