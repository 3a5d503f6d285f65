"""Figures and verdict of the demo."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from afterturn.demo.display import show_progress, show_report
from afterturn.demo.figures import MOST_GROWTH, Figures, Findings, flatness_of, judge_flatness, rise
from afterturn.demo.play import Percentiles, TurnMeasure
from afterturn.demo.transcript import Transcript
from afterturn.report.plot import occupancy_plot

THRESHOLD = 1000
CLEARED_LINE = "\x1b[2K"
FINDINGS = Findings(
    lost_messages=0,
    duplicate_messages=0,
    altered_messages=0,
    in_order=True,
    user_messages=30,
    user_messages_verbatim=True,
    live_markers=1,
    live_messages=61,
    archived_messages=39,
    live_tokens=330,
    counted_tokens=330,
    passes=7,
    tokens_saved=2670,
)


def measure(turn: int, *, live: int, passes: int = 5, kept: int = 0) -> TurnMeasure:
    return TurnMeasure(
        turn=turn,
        live_tokens=live,
        peak_tokens=live + 20,
        unmanaged_tokens=100 * turn,
        kept_tokens=kept,
        passes=passes,
        finalize_ms=float(turn),
    )


MEASURES = tuple(measure(turn, live=300 + turn, kept=turn) for turn in range(1, 31))


def figures(measures: tuple[TurnMeasure, ...] = MEASURES, findings: Findings = FINDINGS) -> Figures:
    return Figures(
        transcript=Transcript("talk", "somewhere", ()),
        session_id="demo_1",
        turns=len(measures),
        messages=100,
        window=2000,
        threshold=THRESHOLD,
        summariser="local",
        seconds=1.5,
        open_jobs=0,
        measures=measures,
        findings=findings,
        finalize=Percentiles.of([m.finalize_ms for m in measures]),
        flatness=flatness_of(measures, THRESHOLD),
    )


def printed(shown: Figures, width: int = 80) -> str:
    out = StringIO()
    show_report(Console(file=out, width=width, markup=False), shown)
    return out.getvalue()


def test_a_good_demo_passes_every_check() -> None:
    good = figures()
    assert good.good
    assert good.document()["verdict"] == "pass"
    assert set(good.checks.values()) == {True}
    assert "PASS" in printed(good)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"lost_messages": 1}, "nothing_lost"),
        ({"duplicate_messages": 1}, "nothing_twice"),
        ({"altered_messages": 1}, "nothing_altered"),
        ({"in_order": False}, "nothing_altered"),
        ({"user_messages_verbatim": False}, "user_messages_verbatim"),
        ({"live_markers": 2}, "at_most_one_marker"),
        ({"counted_tokens": 331}, "counters_right"),
    ],
)
def test_each_bad_finding_fails_the_verdict(change: dict[str, object], check: str) -> None:
    bad = figures(findings=replace(FINDINGS, **change))  # type: ignore[arg-type] # by field name
    assert [name for name, good in bad.checks.items() if not good] == [check]
    assert bad.document()["verdict"] == "fail"
    assert f"FAIL  {check}" in printed(bad)


def test_a_view_that_reaches_the_threshold_even_for_a_moment_needs_a_batch_pass() -> None:
    at_once = replace(MEASURES[10], peak_tokens=THRESHOLD)
    full = figures((*MEASURES[:10], at_once, *MEASURES[11:]))
    assert full.batch_passes_needed == 1
    assert full.occupancy_max == 1.0
    assert not full.checks["no_batch_pass_needed"]


def test_a_job_that_is_left_fails_the_verdict() -> None:
    assert not replace(figures(), open_jobs=1).good


def test_it_is_shown_when_the_view_would_have_been_full_without_compaction() -> None:
    assert figures().unmanaged_over_at == 10
    assert figures(MEASURES[:9]).unmanaged_over_at is None


def test_percentiles_are_values_that_occurred() -> None:
    hundred = Percentiles.of([float(n) for n in range(100, 0, -1)])
    assert (hundred.p50, hundred.p99, hundred.worst) == (50.0, 99.0, 100.0)
    assert Percentiles.of([7.0]) == Percentiles(7.0, 7.0, 7.0)


def test_a_line_rises_by_its_slope_whatever_its_noise_at_the_ends() -> None:
    assert rise([0, 10, 20, 30]) == pytest.approx(30)
    assert rise([5, 5, 5]) == 0
    assert rise([1]) == 0
    swinging = [100 + (50 if i % 2 else 0) for i in range(101)]
    assert abs(rise(swinging)) < 5


def test_flat_means_that_nothing_but_the_users_own_messages_adds_up() -> None:
    users = [6 * turn for turn in range(30)]
    with_users = judge_flatness(
        [300 + kept for kept in users], users, users, threshold=THRESHOLD, passes_before=1
    )
    assert with_users.growth == pytest.approx(0.054)
    assert with_users.kept == pytest.approx(0.054)
    assert with_users.flat is True
    growing = [300 + kept + 5 * turn for turn, kept in enumerate(users)]
    beyond = judge_flatness(growing, users, users, threshold=THRESHOLD, passes_before=1)
    assert beyond.beyond_kept == pytest.approx(0.045)
    assert beyond.beyond_kept > MOST_GROWTH
    assert beyond.flat is False


def test_flatness_is_not_judged_before_compaction_has_begun() -> None:
    young = tuple(measure(turn, live=100 * turn, passes=0) for turn in range(1, 10))
    shown = figures(young)
    assert shown.flatness.flat is None
    assert "occupancy_flat" not in shown.checks
    assert shown.flatness.growth == pytest.approx(0.2)
    assert "too short to tell" in printed(shown)


@pytest.mark.parametrize(("turns", "flat"), [(5, None), (6, True)])
def test_flatness_of_a_handful_of_turns_is_not_judged(turns: int, flat: bool | None) -> None:
    level = [300] * turns
    judged = judge_flatness(level, level, [0] * turns, threshold=THRESHOLD, passes_before=1)
    assert judged.flat is flat


def test_growth_is_reported_as_a_share_of_the_threshold() -> None:
    lines = [line for line in printed(figures()).splitlines() if "grown" in line]
    assert len(lines) == 2
    assert all("of the threshold" in line for line in lines)


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_fits_its_terminal(width: int) -> None:
    lines = printed(figures(), width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("turns", [1, 2, 30])
def test_the_plot_shows_both_lines_the_threshold_and_the_turns(turns: int) -> None:
    shown = MEASURES[:turns]
    drawn = occupancy_plot(
        [measure.turn for measure in shown],
        unmanaged=[measure.unmanaged_tokens for measure in shown],
        managed=[measure.live_tokens for measure in shown],
        threshold=THRESHOLD,
        width=80,
    ).plain
    assert "100 %" in drawn
    assert str(turns) in drawn.splitlines()[-1]
    assert max(map(len, drawn.splitlines())) <= 80


def test_an_ascii_terminal_gets_no_plot() -> None:
    out = _Ascii()
    show_report(Console(file=out, width=80), figures())
    assert "Live tokens in %" not in out.getvalue()
    assert "PASS" in out.getvalue()


class _Ascii(StringIO):
    encoding = "ascii"


def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    out = StringIO()
    console = Console(file=out, width=120)
    with show_progress(console, turns=130, threshold=THRESHOLD) as progress:
        for turn in range(1, 131):
            progress.turn(measure(turn, live=400))
        progress.settling()
    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == [
        "turn   50 of 130",
        "turn  100 of 130",
        "turn  130 of 130",
        "waiting for the last jobs",
    ]


def test_on_a_terminal_progress_draws_bars_and_goes_away() -> None:
    out = StringIO()
    terminal = Console(file=out, width=80, force_terminal=True, force_interactive=True)
    with show_progress(terminal, turns=30, threshold=THRESHOLD) as progress:
        for one in MEASURES:
            progress.turn(one)
    shown = out.getvalue()
    assert "30 of 30" in shown
    assert "33.0 %, 330 tokens" in shown
    assert shown.endswith(CLEARED_LINE)
