"""`afterturn signals`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from afterturn.commands.shared import AsJson, Follow
from afterturn.invocation import Invocation, find_session
from afterturn.render.console import Output
from afterturn.render.fields import cell
from afterturn.render.sentences import signal_sentence
from afterturn.render.words import moment
from storage import signals as stored
from storage.signals import Signal, to_json


def signals(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Only those of this session.")
    ] = None,
    *,
    follow: Follow = False,
    limit: Annotated[int, typer.Option(min=0, max=10_000, help="How many of the last ones.")] = 20,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="ID", help="The first ones behind this id instead.")
    ] = None,
    loud: Annotated[
        bool, typer.Option("--loud", help="Only those that a gateway shows its user.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the signals for gateways: compactions, failures, cooldowns, placeholders, resets.

    With --follow and --json each is a JSON document on a line of its own.
    """
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, _), database.read() as connection:
        key = None
        if session is not None:
            key = find_session(connection, owner=invocation.owner, session_id=session).key
        found = stored.read(
            connection,
            owner=invocation.owner,
            key=key,
            after=after or 0,
            quiet=not loud,
            limit=limit,
            last=after is None,
        )
        last = found[-1].id if found else after or 0
        if after is None:
            last = max(last, stored.newest(connection, owner=invocation.owner))
    if as_json and not follow:
        output.document({"signals": [json.loads(to_json(one)) for one in found], "last": last})
        return
    for one in found:
        _show(output, one)
    if not follow:
        if not found:
            output.notice("There are no signals here.")
        return
    _follow(invocation, output, session, after=last, quiet=not loud)


def _follow(
    invocation: Invocation, output: Output, session: str | None, *, after: int, quiet: bool
) -> None:
    try:
        with invocation.gateway() as gateway:
            for one in gateway.listen(after=after, quiet=quiet):
                if session in (None, one.session_id):
                    _show(output, one)
    except KeyboardInterrupt:
        return


def _show(output: Output, signal: Signal) -> None:
    if output.as_json:
        output.text(to_json(signal) + "\n")
        return
    style = "dim" if signal.quiet else ""
    cells = (f"{signal.id:>6}", moment(signal.at), signal.session_id, signal_sentence(signal))
    if not output.results.is_terminal:
        output.write("  ".join(cells))
        return
    line = Table.grid(padding=(0, 2))
    for _ in cells[:-1]:
        line.add_column(no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(*(cell(text, style) for text in cells))
    output.show(line)
