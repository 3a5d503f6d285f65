"""`afterturn audit`: who or what did something."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from afterturn.commands.shared import (
    PAGE,
    AllOwners,
    AsJson,
    Follow,
    Limit,
    age_ms,
    check_names,
    follow,
)
from afterturn.invocation import Invocation, moment_before
from afterturn.render.console import Output
from afterturn.render.fields import (
    ID,
    MOMENT,
    SERIAL,
    Field,
    Fields,
    document,
    documents,
    for_people,
    line,
    show_table,
)
from afterturn.render.sentences import audit_sentence
from storage import audit as trail
from storage.audit import AuditAction, Entry, Which

ENTRY: Fields[Entry] = (
    Field("id", "no.", lambda one: one.id, SERIAL, priority=3),
    Field("at", "at", lambda one: one.at, MOMENT),
    Field("owner", "owner", lambda one: one.owner, ID),
    Field("session", "session", lambda one: one.session, ID),
    Field("actor", "by", lambda one: one.actor, priority=1),
    Field("action", None, lambda one: one.action),
    for_people("did", audit_sentence),
    Field("facts", None, lambda one: dict(one.facts)),
)


def audit(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Only what was done to this session.")
    ] = None,
    *,
    action: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this action, such as undone; may be repeated."),
    ] = None,
    actor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only actors with this in their name.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only what was done since, such as 7d.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Micro passes too, one for nearly every turn.")
    ] = False,
    all_owners: AllOwners = False,
    limit: Limit = 50,
    following: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Print who compacted, undid, rewound, reset, cleared a guard, dropped a job or deleted.

    Each action with its actor: a person at a host, a gateway, a worker. Without --all, or a
    SESSION or --action, micro passes are left out. It holds names and figures, never text.
    """
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    check_names("action", action or [], list(AuditAction))
    actions = [AuditAction(name) for name in action or []]
    quiet = [] if every or session or actions else [AuditAction.MICRO_COMPACTED]
    without = () if all_owners else ("owner",)
    with invocation.database() as (database, _):
        with database.read() as connection:
            which = Which(
                owner=None if all_owners else invocation.owner,
                session=session,
                actions=actions,
                without=quiet,
                actor=actor,
                since_ms=None
                if since is None
                else moment_before(connection, database, age_ms(since, "--since")),
            )
            found = trail.page(connection, which, limit=limit)[::-1]
        if not following:
            if as_json:
                output.document({"entries": documents(ENTRY, found)})
            elif not found:
                output.notice("There are no such entries.")
            elif output.results.is_terminal:
                show_table(output, ENTRY, found, without=without)
            else:
                output.write(*(line(ENTRY, one, without=without) for one in found))
            return

        def read(last: int) -> list[Entry]:
            with database.read() as connection:
                return trail.after(connection, which, number=last, limit=PAGE)

        def show(one: Entry) -> None:
            if as_json:
                output.text(json.dumps(document(ENTRY, one)) + "\n")
            else:
                output.write(line(ENTRY, one, without=without))

        for one in found:
            show(one)
        last = found[-1].id if found else 0
        follow(read, show, last=last, number=lambda one: one.id)
