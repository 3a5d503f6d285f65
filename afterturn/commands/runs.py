"""`afterturn runs`: what passes were made, and what came of them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from afterturn.ages import age_ms, moment_before
from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.invocation import Invocation
from afterturn.lookup import find_session
from afterturn.terms import attempt_name, outcome_name
from afterturn.words import cell, columns, duration, moment, moment_utc, number
from storage import activity
from storage.activity import TryRecord, WhichTries
from storage.engine import Database

FOLLOW_SECONDS = 1.0
_PAGE = 500


def runs(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Only those of this session.")
    ] = None,
    *,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only micro, batch or prune; may be given again."),
    ] = None,
    trigger: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only what this asked for, such as manual, recompact."),
    ] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only what came to this, such as compacted or failed."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only the last time, such as 12h.")
    ] = None,
    all_owners: Annotated[bool, typer.Option("--all-owners", help="Whoever owns them.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many of the last ones.")] = 30,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="NO", help="The page before this number.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new ones until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the tries of passes, the newest last: what asked for it, what came of it, what it took.

    With --follow and --json each is a JSON document on a line of its own.
    """
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, _):
        with database.read() as connection:
            key = None
            if session is not None:
                key = find_session(connection, owner=invocation.owner, session_id=session).key
            which = WhichTries(
                owner=None if all_owners else invocation.owner,
                key=key,
                kinds=kind or (),
                triggers=trigger or (),
                outcomes=[*(outcome or ()), *(["failed"] if failed else [])],
                since_ms=None
                if since is None
                else moment_before(connection, database, age_ms(since, "--since")),
            )
            found = activity.newest(connection, which, before=before, limit=limit)[::-1]
        if as_json and not follow:
            output.document({"runs": [try_document(one) for one in found]})
            return
        if not follow:
            if found:
                _table(output, found, named=session is None, owners=all_owners)
            else:
                output.notice("There are no such passes.")
            return
        for one in found:
            _line(output, one)
        try:
            _follow(output, database, which, found[-1].id if found else 0)
        except KeyboardInterrupt:
            return


def try_document(one: TryRecord) -> dict[str, Any]:
    """A try for programs."""
    return {
        "id": one.id,
        "at": moment_utc(one.at),
        "owner": one.owner,
        "session": one.session,
        **asdict(one.attempt),
        "occupancy": one.attempt.occupancy,
    }


def _table(output: Output, found: list[TryRecord], *, named: bool, owners: bool) -> None:
    rows = [_cells(one, named=named, owners=owners) for one in found]
    table = columns(*rows[0])
    for row in rows:
        table.add_row(*map(cell, row.values()))
    output.show(table)


def _cells(one: TryRecord, *, named: bool, owners: bool) -> dict[str, str]:
    attempt = one.attempt
    line = {">no.": str(one.id), "at": moment(one.at)}
    if owners:
        line["owner"] = one.owner
    if named:
        line["session"] = one.session
    tokens = (attempt.prompt_tokens or 0) + (attempt.completion_tokens or 0)
    return line | {
        "pass": attempt_name(attempt.kind, attempt.trigger),
        "outcome": _outcome(one),
        ">live before": number(attempt.tokens_before),
        ">after": number(attempt.tokens_after),
        ">asked": number(tokens) if attempt.requests else "",
        "model": attempt.model,
        ">took": duration(attempt.total_ms),
    }


def _line(output: Output, one: TryRecord) -> None:
    if output.as_json:
        output.text(json.dumps(try_document(one)) + "\n")
        return
    attempt = one.attempt
    output.tell(
        f"{one.id:>6}  {moment(one.at)}  {one.session}  "
        f"{attempt_name(attempt.kind, attempt.trigger)}: {_outcome(one)}, "
        f"{number(attempt.tokens_before)} → {number(attempt.tokens_after)} tokens, "
        f"{duration(attempt.total_ms)}"
    )


def _outcome(one: TryRecord) -> str:
    error = f" ({one.attempt.error_class})" if one.attempt.error_class else ""
    return outcome_name(one.attempt.outcome) + error


def _follow(output: Output, database: Database, which: WhichTries, last: int) -> None:
    while True:
        with database.read() as connection:
            found = activity.after(connection, which, number=last, limit=_PAGE)
        for one in found:
            last = one.id
            _line(output, one)
        if len(found) < _PAGE:
            time.sleep(FOLLOW_SECONDS)
