"""A report on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from afterturn.console import Output
from afterturn.report.course import Course
from afterturn.report.figures import (
    SessionReport,
    Sums,
    add_up,
    amount,
    break_even,
    occupancies,
    percent,
    short,
)
from afterturn.report.plot import legend, occupancy_plot
from afterturn.words import cell, columns, facts, number


def show_session(output: Output, report: SessionReport, *, currency: str) -> None:
    """Print one session's report: the plot, then the figures."""
    course, prices = report.course, report.prices
    if len(course.points) > 1 and not output.results.options.ascii_only:
        output.show(
            legend(unmanaged="summarised inline", managed="with afterturn"),
            _plot(course, width=output.results.width),
        )
    table = columns("", ">inline", ">with afterturn")
    for row in (
        ("tokens sent with requests", number(course.without.prompt), number(course.with_.prompt)),
        (
            "tokens that summarising took",
            number(course.without.summariser_read + course.without.summariser_written),
            number(course.with_.summariser_read + course.with_.summariser_written),
        ),
        ("batch passes", number(course.inline_passes), number(course.batch_passes)),
        (
            "money",
            amount(course.without.money(prices), currency),
            amount(course.with_.money(prices), currency),
        ),
    ):
        table.add_row(*row)
    output.show(table)
    output.show(
        facts(
            [
                (
                    "now",
                    f"{number(report.session.live_tokens)} live tokens, "
                    f"{percent(report.occupancy)} of the threshold",
                ),
                ("passes", number(course.passes)),
                (
                    "saved, net",
                    f"{number(course.tokens_saved)} tokens, {amount(report.money_saved, currency)}",
                ),
                ("paid for itself", break_even(report.break_even)),
            ]
        )
    )


def show_overall(
    output: Output, reports: Sequence[SessionReport], *, currency: str, most: int
) -> None:
    """Print the report of many sessions."""
    sums = add_up(reports)
    table = columns(
        "session", ">turns", ">passes", ">batch avoided", ">full", ">saved", ">money", "paid"
    )
    for one in sorted(reports, key=lambda one: -one.tokens_saved)[:most]:
        course = one.course
        table.add_row(
            cell(one.session.id),
            number(one.session.turns),
            number(course.passes),
            number(course.inline_passes - course.batch_passes),
            percent(one.occupancy),
            short(one.tokens_saved),
            amount(one.money_saved, currency),
            break_even(one.break_even),
        )
    output.show(table)
    full = [f"{name}: {number(many)}" for name, many in occupancies(reports) if many]
    output.show(
        facts(
            [
                ("sessions", f"{number(sums.sessions)}, {number(sums.requests)} requests"),
                ("how full", ", ".join(full)),
                (
                    "tokens sent",
                    f"{number(sums.sent_with)}; inline {number(sums.sent_without)}",
                ),
                (
                    "summarising",
                    f"{number(sums.summarising_with)} tokens; inline "
                    f"{number(sums.summarising_without)}",
                ),
                (
                    "batch passes",
                    f"{number(sums.batch_passes)}; inline {number(sums.inline_passes)}, so "
                    f"{number(sums.passes_avoided)} avoided",
                ),
                ("saved, net", f"{number(sums.tokens_saved)} tokens, {_money(sums, currency)}"),
                ("paid", f"{number(sums.broke_even)} of {number(sums.sessions)} sessions"),
            ]
        )
    )


def session_document(report: SessionReport) -> dict[str, Any]:
    """Return one session's report for programs."""
    course = report.course
    return {
        "owner": report.session.owner,
        "session": report.session.id,
        "turns": report.session.turns,
        "threshold": course.threshold,
        "live_tokens": report.session.live_tokens,
        "occupancy": report.occupancy,
        "requests": course.requests,
        "passes": course.passes,
        "batch_passes": course.batch_passes,
        "inline_batch_passes": course.inline_passes,
        "with": asdict(course.with_),
        "inline": asdict(course.without),
        "tokens_saved": course.tokens_saved,
        "money_saved": report.money_saved,
        "break_even_pass": report.break_even,
        "points": [
            {
                "turn": point.turn,
                "live_tokens": point.managed,
                "inline_tokens": point.inline,
                "whole_tokens": point.whole,
                "passes": point.passes,
            }
            for point in course.points
        ],
    }


def overall_document(reports: Sequence[SessionReport], *, owner: str | None) -> dict[str, Any]:
    """Return the report of many sessions for programs."""
    sums = add_up(reports)
    return {
        "owner": owner,
        **asdict(sums),
        "passes_avoided": sums.passes_avoided,
        "occupancy": [{"full": name, "sessions": many} for name, many in occupancies(reports)],
        "by_session": [
            {name: value for name, value in session_document(one).items() if name != "points"}
            for one in reports
        ],
    }


def _plot(course: Course, *, width: int) -> Text:
    points = course.points
    return occupancy_plot(
        [point.turn for point in points],
        unmanaged=[point.inline for point in points],
        managed=[point.managed for point in points],
        threshold=course.threshold,
        width=width,
    )


def _money(sums: Sums, currency: str) -> str:
    if sums.money_saved is None:
        return "money unknown (block prices names none of the models)"
    part = "" if sums.priced == sums.sessions else f" (of {number(sums.priced)} sessions)"
    return amount(sums.money_saved, currency) + part
