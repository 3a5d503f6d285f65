"""`afterturn status`: one screen."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import typer
from rich.text import Text

from afterturn.bulk.tables import filter_words
from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.doctor.finding import Finding, Status
from afterturn.exits import Exit
from afterturn.invocation import Invocation
from afterturn.status import DeploymentStatus, queues_document, read_status, show_queues
from afterturn.terms import outcome_name
from afterturn.words import count, duration, facts, number

_MARKS = {
    Status.OK: ("ok  ", "green"),
    Status.WARN: ("look", "yellow"),
    Status.FAIL: ("FAIL", "bold red"),
}
_MOST_OUTCOMES = 5


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show on one screen whether everything is up, what is due, and what is stuck.

    Asks no model and changes nothing; `afterturn doctor` looks deeper. Exit code 1 when something
    should be looked at.
    """
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        seen = read_status(database, settings, os.environ)
    if as_json:
        output.document(_document(seen))
    else:
        _show(output, seen)
    if not seen.well:
        raise typer.Exit(Exit.FAILED)


def _show(output: Output, seen: DeploymentStatus) -> None:
    for finding in seen.findings:
        mark, style = _MARKS[finding.status]
        output.show(Text.assemble((mark, style), f"  {finding.check:<14}  {finding.detail}"))
    show_queues(output, list(seen.queues), None)
    stock, lately = seen.stock, seen.lately
    output.show(
        facts(
            [
                (
                    "sessions",
                    f"{number(stock.sessions)}, {number(stock.active)} active within a day; "
                    f"{number(stock.live_tokens)} live tokens, {number(stock.tokens_saved)} saved "
                    f"by {count(stock.passes, 'pass', 'passes')}",
                ),
                ("last hour", _outcomes(seen)),
                (
                    "models",
                    f"{count(lately.requests, 'request')}, {number(lately.prompt_tokens)} tokens "
                    f"sent, {number(lately.completion_tokens)} answered"
                    + (
                        f"; {duration(lately.model_ms_p50)} in the middle, "
                        f"{duration(lately.model_ms_most or 0)} at most"
                        if lately.model_ms_p50 is not None
                        else ""
                    ),
                ),
                *_bulk(seen),
            ]
        )
    )
    for finding in seen.troubles:
        output.tell(f"{finding.check}: {finding.advice}", style="yellow")
    if seen.well:
        output.tell("All is well.", style="green")


def _outcomes(seen: DeploymentStatus) -> str:
    found = list(seen.lately.outcomes.items())
    if not found:
        return "no pass"
    told = [f"{number(many)} {outcome_name(name)}" for name, many in found[:_MOST_OUTCOMES]]
    others = sum(many for _, many in found[_MOST_OUTCOMES:])
    return ", ".join(told + ([f"{number(others)} others"] if others else []))


def _bulk(seen: DeploymentStatus) -> list[tuple[str, str]]:
    if seen.run is None:
        return []
    run, tally = seen.run
    return [
        (
            "bulk run",
            f"{run.id} is {run.state.value}: {number(tally.settled)} of {number(run.sessions)} "
            f"settled; {filter_words(run.filters, run.owner)}",
        )
    ]


def _document(seen: DeploymentStatus) -> dict[str, Any]:
    run = None
    if seen.run is not None:
        found, tally = seen.run
        run = {
            "run": found.id,
            "state": found.state.value,
            "sessions": found.sessions,
            "settled": tally.settled,
        }
    return {
        "well": seen.well,
        "database": {"place": seen.place, "milliseconds": seen.database_ms},
        "findings": [_finding(one) for one in seen.findings],
        **queues_document(list(seen.queues), None),
        "sessions": asdict(seen.stock),
        "last_hour": {**asdict(seen.lately), "outcomes": dict(seen.lately.outcomes)},
        "bulk_run": run,
    }


def _finding(one: Finding) -> dict[str, str]:
    return {
        "check": one.check,
        "status": one.status.value,
        "detail": one.detail,
        "advice": one.advice,
    }
