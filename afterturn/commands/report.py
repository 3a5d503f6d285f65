"""`afterturn report`: what compaction saved, and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from afterturn.ages import moment_before
from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.lookup import find_session
from afterturn.report.figures import read_many, read_session
from afterturn.report.page import overall_page, session_page
from afterturn.report.terminal import (
    overall_document,
    session_document,
    show_overall,
    show_session,
)

SHOWN = 20


def report(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="This session. Default: all.")
    ] = None,
    *,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with charts too; it needs no network."),
    ] = None,
    all_owners: Annotated[bool, typer.Option("--all-owners", help="Whoever owns them.")] = False,
    limit: Annotated[
        int,
        typer.Option(min=1, max=100_000, help="Sessions at most, those that saved most in front."),
    ] = 2000,
    as_json: AsJson = False,
) -> None:
    """Show what compaction saved and cost: occupancy over turns, tokens, money, passes avoided.

    Compared with an agent that summarises inline when a request reaches the threshold. Saved is net
    of what summarising took and of the summaries that are sent along. Money needs block prices.
    """
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    owner = None if all_owners else invocation.owner
    with invocation.database() as (database, settings), database.read() as connection:
        currency = settings.prices.currency
        now = moment_before(connection, database, 0)
        if session is not None:
            record = find_session(connection, owner=invocation.owner, session_id=session)
            one = read_session(connection, record, settings)
            page = session_page(one, currency=currency, made_at=now) if html else ""
        else:
            many = read_many(connection, settings, owner=owner, limit=limit)
            page = overall_page(many, owner=owner, currency=currency, made_at=now) if html else ""
    if html is not None:
        _write(html, page)
    if as_json:
        output.document(
            session_document(one) if session is not None else overall_document(many, owner=owner)
        )
    elif session is not None:
        show_session(output, one, currency=currency)
    elif many:
        show_overall(output, many, currency=currency, most=SHOWN)
    else:
        output.notice("No session here has had a pass yet.")
    if html is not None:
        output.notice(f"Wrote {html}.")


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: cannot be written ({error.strerror})", Exit.USAGE) from error
