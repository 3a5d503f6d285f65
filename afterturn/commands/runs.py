"""`afterturn runs`: the attempts of passes and their outcomes."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from afterturn.commands.shared import PAGE, AllOwners, AsJson, Follow, Limit, age_ms, follow
from afterturn.invocation import Invocation, find_session, moment_before
from afterturn.render.console import Output
from afterturn.render.fields import (
    ID,
    MOMENT,
    SERIAL,
    Field,
    Fields,
    document,
    documents,
    show_table,
)
from afterturn.render.sessions import attempt_fields
from afterturn.render.terms import attempt_name, outcome_name
from afterturn.render.words import duration, moment, number
from storage import history
from storage.history import TryRecord, WhichTries

RUN: Fields[TryRecord] = (
    Field("id", "no.", lambda one: one.id, SERIAL, priority=3),
    Field("at", "at", lambda one: one.at, MOMENT, priority=1),
    Field("owner", "owner", lambda one: one.owner, ID),
    Field("session", "session", lambda one: one.session, ID),
    *attempt_fields(lambda one: one.attempt),
)


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
        typer.Option(metavar="NAME", help="Only those that this asked for, such as manual."),
    ] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Only those with this outcome, such as compacted or failed."
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only those since, such as 12h.")
    ] = None,
    all_owners: AllOwners = False,
    limit: Limit = 30,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="NO", help="The page before this number.")
    ] = None,
    following: Follow = False,
    as_json: AsJson = False,
) -> None:
    """List the attempts of passes, the newest last: what asked for each, its outcome and its cost.

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
            found = history.newest(connection, which, before=before, limit=limit)[::-1]
        if not following:
            if as_json:
                output.document({"runs": documents(RUN, found)})
            elif found:
                hidden = [*([] if all_owners else ["owner"]), *(["session"] if session else [])]
                show_table(output, RUN, found, without=hidden)
            else:
                output.notice("There are no such passes.")
            return

        def read(last: int) -> list[TryRecord]:
            with database.read() as connection:
                return history.after(connection, which, number=last, limit=PAGE)

        def show(one: TryRecord) -> None:
            if as_json:
                output.text(json.dumps(document(RUN, one)) + "\n")
            else:
                output.write(_line(one))

        for one in found:
            show(one)
        last = found[-1].id if found else 0
        follow(read, show, last=last, number=lambda one: one.id)


def _line(one: TryRecord) -> str:
    attempt = one.attempt
    error = f" ({attempt.error_class})" if attempt.error_class else ""
    return (
        f"{one.id:>6}  {moment(one.at)}  {one.session}  "
        f"{attempt_name(attempt.kind, attempt.trigger)}: {outcome_name(attempt.outcome)}{error}, "
        f"{number(attempt.tokens_before)} → {number(attempt.tokens_after)} tokens, "
        f"{duration(attempt.total_ms)}"
    )
