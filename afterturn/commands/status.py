"""`afterturn status`: one screen."""

from __future__ import annotations

import os
from dataclasses import asdict

import typer
from rich.text import Text

from afterturn.commands.shared import AsJson
from afterturn.doctor.finding import Finding, Status
from afterturn.exits import Exit
from afterturn.invocation import Invocation
from afterturn.render.bulk import filter_words
from afterturn.render.console import Output
from afterturn.render.fields import (
    Field,
    Fields,
    document,
    documents,
    for_people,
    for_programs,
    lines,
)
from afterturn.render.terms import outcome_name
from afterturn.render.words import count, duration, number
from afterturn.status import DeploymentStatus, queues_document, read_status, show_queues
from storage.bulk_runs import Run, Tally

_MARKS = {
    Status.OK: ("ok  ", "green"),
    Status.WARN: ("look", "yellow"),
    Status.FAIL: ("FAIL", "bold red"),
}
_MOST_OUTCOMES = 5


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show on one screen whether everything is up, what is due, and what is stuck.

    Asks no model and changes nothing; `afterturn doctor` checks more. Exit code 1 when something
    needs attention.
    """
    output = Output(as_json=as_json)
    with Invocation.of(context).database() as (database, settings):
        overall = read_status(database, settings, os.environ)
    if as_json:
        output.document(
            {**document(STATUS, overall), **queues_document(list(overall.queues), None)}
        )
    else:
        _show(output, overall)
    if not overall.well:
        raise typer.Exit(Exit.FAILED)


def _show(output: Output, overall: DeploymentStatus) -> None:
    for finding in overall.findings:
        mark, style = _MARKS[finding.status]
        output.show(Text.assemble((mark, style), f"  {finding.check:<14}  {finding.detail}"))
    show_queues(output, list(overall.queues), None)
    output.show(lines(STATUS, overall))
    for finding in overall.troubles:
        output.write(f"{finding.check}: {finding.advice}", style="yellow")
    if overall.well:
        output.write("All is well.", style="green")


def _outcomes(overall: DeploymentStatus) -> str:
    found = list(overall.recent.outcomes.items())
    if not found:
        return "no pass"
    words = [f"{number(many)} {outcome_name(name)}" for name, many in found[:_MOST_OUTCOMES]]
    others = sum(many for _, many in found[_MOST_OUTCOMES:])
    return ", ".join(words + ([f"{number(others)} others"] if others else []))


def _models(overall: DeploymentStatus) -> str:
    recent = overall.recent
    times = (
        f"; {duration(recent.model_ms_p50)} median, {duration(recent.model_ms_most or 0)} at most"
        if recent.model_ms_p50 is not None
        else ""
    )
    return (
        f"{count(recent.requests, 'request')}, {number(recent.prompt_tokens)} tokens sent, "
        f"{number(recent.completion_tokens)} answered{times}"
    )


def _sessions(overall: DeploymentStatus) -> str:
    stock = overall.stock
    return (
        f"{number(stock.sessions)}, {number(stock.active)} active within a day; "
        f"{number(stock.live_tokens)} live tokens, {number(stock.tokens_saved)} saved by "
        f"{count(stock.passes, 'pass', 'passes')}"
    )


def _bulk(run: Run, tally: Tally) -> str:
    return (
        f"{run.id} is {run.state.value}: {number(tally.settled)} of {number(run.sessions)} "
        f"settled; {filter_words(run.filters, run.owner)}"
    )


BULK_RUN: Fields[tuple[Run, Tally]] = (
    Field("run", None, lambda one: one[0].id),
    Field("state", None, lambda one: one[0].state.value),
    Field("sessions", None, lambda one: one[0].sessions),
    Field("settled", None, lambda one: one[1].settled),
)

FINDING: Fields[Finding] = for_programs("check", "status", "detail", "advice")

STATUS: Fields[DeploymentStatus] = (
    *for_programs("well"),
    Field("database", None, lambda one: {"place": one.place, "milliseconds": one.database_ms}),
    Field("findings", None, lambda one: documents(FINDING, one.findings)),
    Field("sessions", "sessions", lambda one: asdict(one.stock), text=_sessions),
    Field("last_hour", "last hour",
          lambda one: {**asdict(one.recent), "outcomes": dict(one.recent.outcomes)},
          text=_outcomes),
    for_people("models", _models),
    Field("bulk_run", "bulk run", lambda one: one.run and document(BULK_RUN, one.run),
          text=lambda one: _bulk(*one.run) if one.run else ""),
)  # fmt: skip
