"""`sessions`, `context`, `output` and `undo`: show a session, and take a compaction back."""

from __future__ import annotations

from typing import Annotated

import typer

from afterturn.commands.shared import AllOwners, AsJson, Command, Group, SessionId
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, find_session
from afterturn.overview import Fullness, read_overview
from afterturn.render.console import Output, plain
from afterturn.render.fields import documents, show_table
from afterturn.render.sessions import (
    SESSION,
    SUMMARY,
    Listed,
    overview_document,
    show_overview,
)
from afterturn.render.terms import summary_name
from afterturn.render.transcript import blocks
from afterturn.render.words import count, number
from producers import Gateway, HandleError, OutputNotFound
from storage.conversations import sessions, summaries
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind
from storage.conversations.undo import Undone
from workers.rendering import Dialect

Handle = Annotated[
    str, typer.Argument(metavar="HANDLE", help="As it stands at the end of a note: out-12-345.")
]

application = typer.Typer(
    cls=Group, help="List the stored sessions, or show one.", no_args_is_help=True
)


@application.command("list", cls=Command)
def list_(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Sessions on a page.")] = 20,
    source: Annotated[str | None, typer.Option(help="Only this source, such as telegram.")] = None,
    before: Annotated[
        str | None, typer.Option(metavar="MARK", help="The next page: what the last one ended on.")
    ] = None,
    all_owners: AllOwners = False,
    as_json: AsJson = False,
) -> None:
    """List sessions, the last active ones first."""
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    place = None if before is None else _read_mark(before)
    with invocation.database() as (database, settings), database.read() as connection:
        page = sessions.page(
            connection,
            owner=None if all_owners else invocation.owner,
            source=source,
            limit=limit + 1,
            before=place,
        )
    page, mark = page[:limit], _mark(page[limit - 1]) if len(page) > limit else None
    listed = [Listed(record, Fullness.of(record, settings.compression)) for record in page]
    if as_json:
        output.document({"sessions": documents(SESSION, listed), "next": mark})
        return
    if not page:
        owner = "" if all_owners else f" of owner {invocation.owner!r}"
        output.notice(f"There are no sessions{owner} here.")
        return
    show_table(output, SESSION, listed, without=() if all_owners else ("owner",))
    if mark:
        output.notice(f"More: afterturn sessions list --before {mark}", style="dim")


@application.command(cls=Command)
def show(
    context: typer.Context,
    session: SessionId,
    attempts: Annotated[
        int, typer.Option(min=0, max=1000, help="How many of the last passes to show.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Show a session: how full it is, its last passes, its open jobs."""
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, settings):
        overview = read_overview(
            database,
            settings.compression,
            owner=invocation.owner,
            session_id=session,
            newest_attempts=attempts,
        )
    if as_json:
        output.document(overview_document(overview))
    else:
        show_overview(output, overview)


def _mark(record: SessionRecord) -> str:
    return f"{record.active_at}-{record.key}"


def _read_mark(text: str) -> tuple[int, int]:
    try:
        active_at, key = (int(part) for part in text.split("-"))
    except ValueError:
        raise CommandError(
            f"--before {text!r} is no mark; pass what the last page ended on", Exit.USAGE
        ) from None
    return active_at, key


def context(
    context: typer.Context,
    session: SessionId,
    dialect: Annotated[
        Dialect, typer.Option(help="Which provider's rules the view has to meet.")
    ] = Dialect.OPENAI,
    as_json: AsJson = False,
) -> None:
    """Print what a model would be sent now: the live view of a session."""
    invocation, output = Invocation.of(context), Output(as_json=as_json)
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
                "summaries": documents(SUMMARY, shown),
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


def output(context: typer.Context, handle: Handle, as_json: AsJson = False) -> None:
    """Print the tool output or the arguments that a note in the context stands for."""
    output = Output(as_json=as_json)
    with Invocation.of(context).gateway() as gateway:
        try:
            found = gateway.fetch_output(handle)
        except HandleError as error:
            raise CommandError(str(error), Exit.USAGE) from None
        except OutputNotFound as error:
            message = f"{error}; --owner names another owner"
            raise CommandError(message, Exit.NOT_FOUND) from None
    if as_json:
        output.document(
            {
                "handle": found.handle,
                "session": found.session_id,
                "position": found.position,
                "pruned": found.pruned,
                "text": found.text,
                "message": found.message,
            }
        )
    elif output.results.is_terminal:
        output.show(plain(found.text))
    else:
        # For a program or a file: as it was stored.
        output.text(f"{found.text}\n")


def undo(context: typer.Context, session: SessionId, as_json: AsJson = False) -> None:
    """Take back the last compaction of a session. Its automatic passes wait for the next turn."""
    output = Output(as_json=as_json)
    with Invocation.of(context).gateway() as gateway:
        undone = gateway.undo(session)
    if as_json:
        document = undone and {
            "summary": undone.summary_id,
            "kind": undone.kind,
            "rows_restored": undone.rows_restored,
        }
        output.document({"session": session, "undone": document})
    elif undone is None:
        output.write("There is no compaction to take back.")
    else:
        output.write(_undone(undone), "Automatic passes of this session wait for its next turn.")


def _undone(undone: Undone) -> str:
    match undone.kind:
        case SummaryKind.PLACEHOLDER_REPLACED:
            restored = "the placeholder"
        case SummaryKind.DEFRAG:
            restored = "the longer one before it"
        case _:
            restored = count(undone.rows_restored, "row")
    return (
        f"Took back summary {undone.summary_id} ({summary_name(undone.kind)}); {restored} came "
        "back into the live view."
    )
