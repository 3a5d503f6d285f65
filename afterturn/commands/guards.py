"""`afterturn guards list` and `afterturn guards clear`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from sqlalchemy import Connection

from afterturn.actor import person
from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.guard_tables import show_endpoints, show_guards
from afterturn.guard_words import HOLDING, guard_sentence, is_over
from afterturn.invocation import Invocation
from afterturn.lookup import find_session
from afterturn.plain_help import Command, Group
from afterturn.session_documents import guard_document
from storage import audit, endpoints, guards, sessions
from storage.audit import AuditAction
from storage.engine import Database
from storage.guards import GuardName, GuardRecord, HeldSession
from storage.sessions import SessionRecord

MOST = 1000
"""Guards that are listed at once."""

application = typer.Typer(
    cls=Group,
    help="What holds compaction back: cooldowns, locks, remembered no-ops, breakers.",
    no_args_is_help=True,
)


@application.command("list", cls=Command)
def list_(
    context: typer.Context,
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="Everything that is noted of one session."),
    ] = None,
    all_owners: Annotated[bool, typer.Option("--all-owners", help="Whoever owns them.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what holds sessions back, until when, and the breakers of endpoints."""
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, _), database.read() as connection:
        if session is None:
            owner = None if all_owners else invocation.owner
            held = _holding(connection, database, owner)
        else:
            record = find_session(connection, owner=invocation.owner, session_id=session)
            held = _of_session(connection, database, record)
        states = endpoints.states(connection, database)
    if as_json:
        output.document(
            {
                "guards": [
                    {
                        "owner": one.owner,
                        "session": one.session_id,
                        **guard_document(one.name, one.guard),
                    }
                    for one in held
                ],
                "endpoints": [asdict(state) for state in states],
            }
        )
        return
    if held:
        show_guards(output, held, all_owners=all_owners)
    else:
        output.tell("Nothing holds " + ("the session back." if session else "any session back."))
    if states:
        show_endpoints(output, states)
    else:
        output.tell("No endpoint was asked yet.")


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
    """Take guards away from a session, or let an endpoint be asked again. Nothing is asked.

    Automatic passes then run at the next occasion; what a guard counted begins anew.
    """
    if session is None and not endpoint and not all_endpoints:
        raise CommandError(
            "name a SESSION, or breakers with --endpoint NAME or --all-endpoints", Exit.USAGE
        )
    if session is None and name:
        raise CommandError("--name names a guard of a SESSION; give that too", Exit.USAGE)
    wanted = _names(name or [])
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
    _tell(output, session, cleared)
    for place in closed:
        output.tell(f"Closed the breaker of {place}: it may be asked at once.")
    if (endpoint or all_endpoints) and not closed:
        output.tell("No breaker was open.")


def _tell(output: Output, session: str | None, cleared: dict[GuardName, GuardRecord]) -> None:
    if session is None:
        return
    if not cleared:
        output.tell("There was nothing to clear.")
    for one, guard in cleared.items():
        output.tell(f"Cleared {one} ({guard_sentence(one, guard)}).")


def _holding(connection: Connection, database: Database, owner: str | None) -> list[HeldSession]:
    found = guards.holding(connection, database, names=HOLDING, owner=owner, limit=MOST)
    return [one for one in found if not is_over(one.guard)]


def _of_session(
    connection: Connection, database: Database, record: SessionRecord
) -> list[HeldSession]:
    found = guards.read_all(connection, database, record.key)
    return [
        HeldSession(record.owner, record.id, one, found[one]) for one in GuardName if one in found
    ]


def _close(
    connection: Connection, database: Database, names: Sequence[str], *, every: bool
) -> list[str]:
    """Close breakers; gives those that were open, or that one request kept others away from."""
    states = {state.name: state for state in endpoints.states(connection, database)}
    for name in names:
        if name not in states:
            raise CommandError(
                f"no endpoint {name!r} was ever asked; {_known(name, states)}", Exit.USAGE
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


def _names(given: Sequence[str]) -> set[GuardName]:
    for name in given:
        if name not in list(GuardName):
            raise CommandError(
                f"there is no guard {name!r}; {_known(name, list(GuardName))}", Exit.USAGE
            )
    return {GuardName(name) for name in given}


def _known(name: str, known: Sequence[str] | dict[str, Any]) -> str:
    if not known:
        return "none is known"
    near = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"known are {', '.join(known)}{hint}"
