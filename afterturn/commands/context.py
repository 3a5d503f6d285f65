"""`afterturn context`."""

from __future__ import annotations

from typing import Annotated

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.console import Output
from afterturn.invocation import Invocation
from afterturn.lookup import find_session
from afterturn.session_documents import summary_document
from afterturn.terms import summary_name
from afterturn.transcript_view import blocks
from afterturn.words import count, number
from producers import Gateway
from storage import summaries
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
    invocation = Invocation.of(context)
    with invocation.database() as (database, settings):
        with Gateway(settings, owner=invocation.owner, database=database) as gateway:
            view = gateway.load_context(session, dialect=dialect)
        with database.read() as connection:
            record = find_session(connection, owner=invocation.owner, session_id=session)
            shown = summaries.all_live(connection, record.key)
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
                "summaries": [summary_document(one) for one in shown],
            }
        )
        return
    system = [{"role": "system", "content": view.system}] if view.system else []
    output.show(*blocks([*system, *view.messages]))
    kinds = "".join(f"; shows a {summary_name(one.kind)}" for one in shown)
    output.notice(
        f"{count(len(view.messages), 'message')}, about {number(view.tokens)} tokens, "
        f"revision {view.revision}{kinds}",
        style="dim",
    )
