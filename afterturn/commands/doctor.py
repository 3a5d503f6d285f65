"""`afterturn doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.doctor.database import check_database, check_search
from afterturn.doctor.deployment import check_broker, check_packages, read_configuration
from afterturn.doctor.finding import Finding, Status
from afterturn.doctor.jobs import check_breakers, check_jobs, check_sessions
from afterturn.doctor.summariser import check_slowness, check_summarisers
from afterturn.exits import Exit
from afterturn.invocation import Invocation
from afterturn.words import cell, count

_STYLES = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red"}


def doctor(
    context: typer.Context,
    ask_model: Annotated[
        bool,
        typer.Option(
            help="Whether each configured model gets one real request of a few tokens, which the "
            "provider may charge for."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check configuration, database, search, broker, workers, jobs, summariser and installation.

    Changes nothing, but sends one tiny real request to each configured model.
    With --no-ask-model it does not.

    Exit code 1 when something fails; warnings do not count.
    """
    output = Output(as_json=as_json)
    findings = list(_examine(Invocation.of(context).config, ask_model=ask_model))
    failed = sum(finding.status is Status.FAIL for finding in findings)
    if as_json:
        checks = [asdict(finding) for finding in findings]
        output.document({"ok": failed == 0, "checks": checks})
    else:
        output.show(_table(findings), "", _conclusion(findings))
    if failed:
        raise typer.Exit(Exit.FAILED)


def _examine(config: Path | None, *, ask_model: bool) -> Iterator[Finding]:
    settings, finding = read_configuration(config)
    yield finding
    if settings is not None:
        database, findings = check_database(settings.database_url)
        yield from findings
        yield from check_broker(settings.broker_url)
        try:
            if database is not None:
                yield check_search(database)
                yield from check_jobs(database)
                yield check_sessions(database, settings.compression)
                yield from check_breakers(database, settings, os.environ)
            yield from check_slowness(settings, os.environ, database)
        finally:
            if database is not None:
                database.close()
        yield from check_summarisers(settings, os.environ, ask=ask_model)
    yield from check_packages()


def _table(findings: list[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(
            Text(finding.status, style=_STYLES[finding.status]), finding.check, cell(finding.detail)
        )
        if finding.advice:
            table.add_row("", "", cell(f"→ {finding.advice}", "bold"))
    return table


def _conclusion(findings: list[Finding]) -> Text:
    failed = sum(finding.status is Status.FAIL for finding in findings)
    warned = sum(finding.status is Status.WARN for finding in findings)
    if failed:
        return Text(f"{count(failed, 'check')} failed, {count(warned, 'warning')}.", "bold red")
    if warned:
        return Text(f"Nothing failed, {count(warned, 'warning')}.", "yellow")
    return Text("All is well.", "green")
