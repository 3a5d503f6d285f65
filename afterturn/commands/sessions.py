"""`afterturn sessions list` and `afterturn sessions show`."""

from __future__ import annotations

from typing import Annotated

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.overview import Fullness, read_overview
from afterturn.plain_help import Command, Group
from afterturn.session_documents import overview_document, session_document
from afterturn.session_tables import show_list, show_one
from storage import sessions
from storage.sessions import SessionRecord

application = typer.Typer(
    cls=Group, help="List the stored sessions, or look at one.", no_args_is_help=True
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
    all_owners: Annotated[bool, typer.Option("--all-owners", help="Whoever owns them.")] = False,
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
    lines = [(record, Fullness.of(record, settings.compression)) for record in page]
    if as_json:
        output.document({"sessions": [session_document(*line) for line in lines], "next": mark})
        return
    if not page:
        owner = "" if all_owners else f" of owner {invocation.owner!r}"
        output.notice(f"There are no sessions{owner} here.")
        return
    show_list(output, lines, all_owners=all_owners)
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
    """Show a session: how full it is, what was done to it, what is to be done."""
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
        return
    show_one(output, overview)


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
