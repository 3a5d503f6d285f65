"""`afterturn context`."""

from __future__ import annotations

from typing import Annotated

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.console import Output
from afterturn.invocation import Invocation
from afterturn.transcript_view import blocks
from afterturn.words import count, number
from workers.rendering import Dialect


def context(
    context: typer.Context,
    session: SessionId,
    dialect: Annotated[
        Dialect, typer.Option(help="Which provider's rules the view has to meet.")
    ] = Dialect.OPENAI,
    as_json: AsJson = False,
) -> None:
    """Print what a model would be sent now: the live view of a session."""
    output = Output(as_json=as_json)
    with Invocation.of(context).gateway() as gateway:
        view = gateway.load_context(session, dialect=dialect)
    if as_json:
        output.document(
            {
                "session": session,
                "dialect": view.dialect,
                "tokens": view.tokens,
                "revision": view.revision,
                "omitted": view.omitted,
                "system": view.system,
                "messages": view.messages,
            }
        )
        return
    system = [{"role": "system", "content": view.system}] if view.system else []
    output.show(*blocks([*system, *view.messages]))
    output.notice(
        f"{count(len(view.messages), 'message')}, about {number(view.tokens)} tokens, "
        f"revision {view.revision}",
        style="dim",
    )
