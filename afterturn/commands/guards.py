"""`afterturn guards list` and `afterturn guards clear`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from sqlalchemy import Connection

from afterturn.commands.shared import AllOwners, AsJson, Command, Group, check_names, near
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, find_session, person
from afterturn.render.console import Output
from afterturn.render.fields import (
    ID,
    NUMBER,
    Field,
    Fields,
    documents,
    for_people,
    for_programs,
    show_table,
)
from afterturn.render.sentences import SUPPRESSING, breaker_words, guard_sentence
from afterturn.render.sessions import GUARD_OF_SESSION
from storage import audit, endpoints, guards
from storage.audit import AuditAction
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.endpoints import EndpointState
from storage.engine import Database
from storage.guards import GuardedSession, GuardName, GuardRecord

MOST = 1000
"""Guards that are listed at once."""

ENDPOINT: Fields[EndpointState] = (
    Field("name", "endpoint", lambda one: one.name, ID),
    for_people("breaker", breaker_words),
    *for_programs("is_open", "open_for_ms", "probing"),
    Field("failures", "failures", lambda one: one.failures, NUMBER, priority=1),
    Field("error_class", "last error", lambda one: one.error_class),
    Field("requests", "requests this minute", lambda one: one.requests, NUMBER, priority=3),
    Field("tokens", "tokens", lambda one: one.tokens, NUMBER, priority=2),
)  # fmt: skip

application = typer.Typer(
    cls=Group,
    help="What suppresses compaction: cooldowns, locks, earlier results, breakers.",
    no_args_is_help=True,
)


@application.command("list", cls=Command)
def list_(
    context: typer.Context,
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="All guards of one session."),
    ] = None,
    all_owners: AllOwners = False,
    as_json: AsJson = False,
) -> None:
    """List the guards that suppress passes, until when, and the breakers of endpoints."""
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, _), database.read() as connection:
        if session is None:
            owner = None if all_owners else invocation.owner
            held = _suppressing(connection, database, owner)
        else:
            record = find_session(connection, owner=invocation.owner, session_id=session)
            held = _of_session(connection, database, record)
        states = endpoints.states(connection, database)
    if as_json:
        output.document(
            {
                "guards": documents(GUARD_OF_SESSION, held),
                "endpoints": documents(ENDPOINT, states),
            }
        )
        return
    if held:
        without = () if all_owners else ("owner",)
        show_table(output, GUARD_OF_SESSION, held, title="Guards of sessions", without=without)
    else:
        output.write(f"No guard suppresses passes of {'the' if session else 'any'} session.")
    if states:
        show_table(output, ENDPOINT, states, title="Endpoints")
    else:
        output.write("No endpoint was asked yet.")


@application.command(cls=Command)
def clear(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Id of the session.")
    ] = None,
    *,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="GUARD", help="Only this guard; may be given again. Default: all."),
    ] = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Close the breaker of this endpoint; may be repeated."),
    ] = None,
    all_endpoints: Annotated[
        bool, typer.Option("--all-endpoints", help="Close every breaker.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Clear guards of a session, or close the breaker of an endpoint. Does not ask first.

    Automatic passes then run at the next occasion; what a guard counted starts at zero.
    """
    if session is None and not endpoint and not all_endpoints:
        raise CommandError(
            "name a SESSION, or breakers with --endpoint NAME or --all-endpoints", Exit.USAGE
        )
    if session is None and name:
        raise CommandError("--name names a guard of a SESSION; give that too", Exit.USAGE)
    check_names("guard", name or [], list(GuardName))
    wanted = {GuardName(one) for one in name or []}
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, _), database.write() as connection:
        closed = _close(connection, database, endpoint or [], every=all_endpoints)
        cleared: dict[GuardName, GuardRecord] = {}
        if session is not None:
            record = find_session(connection, owner=invocation.owner, session_id=session)
            sessions.lock(connection, record.key)
            held = guards.read_all(connection, database, record.key)
            cleared = {one: held[one] for one in held if not wanted or one in wanted}
            guards.clear(connection, record.key, *cleared)
            if cleared:
                audit.record(
                    connection,
                    database,
                    AuditAction.GUARD_CLEARED,
                    actor=person(),
                    owner=record.owner,
                    session=record.id,
                    facts={"guards": [one.value for one in cleared]},
                )
    if as_json:
        output.document({"session": session, "cleared": list(cleared), "closed": closed})
        return
    _show_cleared(output, session, cleared)
    for place in closed:
        output.write(f"Closed the breaker of {place}: it may be asked at once.")
    if (endpoint or all_endpoints) and not closed:
        output.write("No breaker was open.")


def _show_cleared(
    output: Output, session: str | None, cleared: dict[GuardName, GuardRecord]
) -> None:
    if session is None:
        return
    if not cleared:
        output.write("There was nothing to clear.")
    for one, guard in cleared.items():
        output.write(f"Cleared {one} ({guard_sentence(one, guard)}).")


def _suppressing(
    connection: Connection, database: Database, owner: str | None
) -> list[GuardedSession]:
    found = guards.holding(connection, database, names=SUPPRESSING, owner=owner, limit=MOST)
    return [one for one in found if not one.guard.is_over]


def _of_session(
    connection: Connection, database: Database, record: SessionRecord
) -> list[GuardedSession]:
    found = guards.read_all(connection, database, record.key)
    return [
        GuardedSession(record.owner, record.id, one, found[one])
        for one in GuardName
        if one in found
    ]


def _close(
    connection: Connection, database: Database, names: Sequence[str], *, every: bool
) -> list[str]:
    """Close breakers; return those that were open, or for whose one request others waited."""
    states = {state.name: state for state in endpoints.states(connection, database)}
    for name in names:
        if name not in states:
            raise CommandError(
                f"no endpoint {name!r} was ever asked; {near(name, states)}", Exit.USAGE
            )
    chosen = [state for state in states.values() if every or state.name in names]
    closed = [state.name for state in chosen if state.is_open or state.probing]
    for name in closed:
        endpoints.close_breaker(connection, name)
        audit.record(
            connection,
            database,
            AuditAction.BREAKER_CLOSED,
            actor=person(),
            facts={"endpoint": name},
        )
    return closed
