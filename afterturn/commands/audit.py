"""`afterturn audit`: who or what did something."""

from __future__ import annotations

import json
import time
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from afterturn.ages import age_ms, moment_before
from afterturn.audit_words import audit_sentence
from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.words import cell, columns, moment, moment_utc
from storage import audit as trail
from storage.audit import AuditAction, Entry, Which
from storage.engine import Database

FOLLOW_SECONDS = 1.0
_PAGE = 500


def audit(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Only what was done to this session.")
    ] = None,
    *,
    action: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this act, such as undone; may be given again."),
    ] = None,
    actor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only acts of those named like this.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only the last time, such as 7d.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Micro passes too, one for nearly every turn.")
    ] = False,
    all_owners: Annotated[bool, typer.Option("--all-owners", help="Whoever owns them.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many of the last ones.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new ones until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print who or what compacted, undid, rewound, reset, cleared a guard, dropped a job, deleted.

    Each act with whom it was done by: a person at a host, a gateway, a worker. Without --all, or a
    SESSION or --action, micro passes are left out. It holds names and figures, never text.
    """
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    actions = _known(action or [])
    quiet = [] if every or session or actions else [AuditAction.MICRO_COMPACTED]
    with invocation.database() as (database, _):
        which = Which(
            owner=None if all_owners else invocation.owner,
            session=session,
            actions=actions,
            without=quiet,
            actor=actor,
            since_ms=None if since is None else _since(database, age_ms(since, "--since")),
        )
        with database.read() as connection:
            found = trail.page(connection, which, limit=limit)[::-1]
        if as_json and not follow:
            output.document({"entries": [entry_document(one) for one in found]})
            return
        _show(output, found, all_owners=all_owners, follow=follow)
        if not follow:
            if not found:
                output.notice("Nothing of that kind was done here.")
            return
        try:
            _follow(output, database, which, found[-1].id if found else 0, all_owners=all_owners)
        except KeyboardInterrupt:
            return


def entry_document(entry: Entry) -> dict[str, Any]:
    """An entry for programs."""
    return {
        "id": entry.id,
        "at": moment_utc(entry.at),
        "owner": entry.owner,
        "session": entry.session,
        "actor": entry.actor,
        "action": entry.action,
        "facts": dict(entry.facts),
    }


def _show(output: Output, found: list[Entry], *, all_owners: bool, follow: bool) -> None:
    if output.as_json:
        for one in found:
            output.text(json.dumps(entry_document(one)) + "\n")
        return
    if follow or not output.results.is_terminal:
        for one in found:
            owner = [one.owner or ""] if all_owners else []
            parts = [
                f"{one.id:>6}",
                moment(one.at),
                *owner,
                one.session or "–",
                one.actor,
                audit_sentence(one),
            ]
            output.tell("  ".join(parts))
        return
    if not found:
        return
    owner = ["owner"] if all_owners else []
    table = columns(">no.", "at", *owner, "session", "by", "did")
    for one in found:
        table.add_row(
            str(one.id),
            moment(one.at),
            *([cell(one.owner or "")] if all_owners else []),
            cell(one.session or "–"),
            cell(one.actor),
            cell(audit_sentence(one)),
        )
    output.show(table)


def _follow(
    output: Output, database: Database, which: Which, last: int, *, all_owners: bool
) -> None:
    while True:
        with database.read() as connection:
            found = trail.after(connection, which, number=last, limit=_PAGE)
        _show(output, found, all_owners=all_owners, follow=True)
        if found:
            last = found[-1].id
        if len(found) < _PAGE:
            time.sleep(FOLLOW_SECONDS)


def _known(names: list[str]) -> list[AuditAction]:
    for name in names:
        if name not in list(AuditAction):
            near = get_close_matches(name, list(AuditAction), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            known = ", ".join(AuditAction)
            raise CommandError(f"there is no act {name!r}, known are {known}{hint}", Exit.USAGE)
    return [AuditAction(name) for name in names]


def _since(database: Database, ms: int) -> int:
    with database.read() as connection:
        return moment_before(connection, database, ms)
