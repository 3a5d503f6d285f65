"""`afterturn compact`."""

from __future__ import annotations

import os
from threading import Event
from typing import Annotated, Any

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.compaction.acting import Interrupted, ask, open_shop, see_through
from afterturn.compaction.look import look
from afterturn.compaction.preview_tables import preview_document, show_preview
from afterturn.compaction.result import Result
from afterturn.compaction.result_tables import result_document, show_result
from afterturn.consent import agreed, check_consent
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.lookup import find_session
from afterturn.summarisers import LOCAL, describe_summarisers, summariser_names
from producers.arguments import RequestError, check_wishes
from storage.sessions import SessionRecord
from workers.batch.plan import NothingToCompact
from workers.batch.preview import Preview
from workers.batch.span import CompactionOptions
from workers.settings import Settings
from workers.summariser.endpoints import EndpointError

_OPTIONS = {"keep_last": "--keep", "up_to": "--up-to", "around": "--around", "focus": "--focus"}


def compact(
    context: typer.Context,
    session: SessionId,
    *,
    focus: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A topic that gets most of the summary.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Leave the newest N turns as they are.")
    ] = None,
    up_to: Annotated[
        int | None,
        typer.Option(min=0, metavar="POSITION", help="Take nothing behind this position."),
    ] = None,
    around: Annotated[
        int | None,
        typer.Option(min=0, metavar="POSITION", help="Take only the turns near this position."),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would be done, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it acts.")] = False,
    queue: Annotated[
        bool, typer.Option("--queue", help="Leave the work to the workers, and do not wait.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Summarise the middle of a session now, whatever its size and whatever holds back.

    Shows first what stays, what is summarised and about what that saves; then asks.
    The work is done here, beside whatever workers there are.

    Nothing is deleted: `afterturn undo` takes it back.

    Exit code 1 when no summary could be had.
    """
    output = Output(as_json=as_json)
    check_consent("compact", preview=preview, yes=yes, as_json=as_json)
    invocation, interrupted = Invocation.of(context), Event()
    source = invocation.source()
    who, local = _summariser(source.current(), tolerant=preview or queue)
    with (
        invocation.database() as (database, _),
        open_shop(database, source, os.environ, interrupted) as shop,
    ):
        with database.read() as connection:
            record = find_session(connection, owner=invocation.owner, session_id=session)
        wishes = _wishes(record, focus=focus, keep_last=keep, up_to=up_to, around=around)
        seen = look(shop, record, wishes)
        if not as_json:
            _show_look(output, seen, who, local=local)
        if isinstance(seen, NothingToCompact) or preview:
            _document(output, session, seen)
            return
        if not yes and not agreed(output, "Compact it now?"):
            return
        asked, others = ask(database, record, wishes, source, ringing=queue)
        if others:
            output.notice(
                "An earlier request for this session waits already: its wishes count.", "yellow"
            )
        if queue:
            _document(output, session, seen, job=asked.job_id)
            if not as_json:
                output.show(f"Job {asked.job_id} is due; a worker takes it.")
            return
        came = see_through(output, shop, asked, seen, interrupted)
    _conclude(output, session, seen, came)


def _wishes(record: SessionRecord, **given: Any) -> CompactionOptions:
    try:
        return check_wishes(**given, next_position=record.next_position)
    except RequestError as error:
        message = str(error)
        for field, option in _OPTIONS.items():
            message = message.replace(field, option)
        raise CommandError(message, Exit.USAGE) from None


def _summariser(settings: Settings, *, tolerant: bool) -> tuple[str, bool]:
    """Who would be asked, in words, and whether that is the built-in one alone.

    Raises `EndpointError` where a key is missing, unless others may have it that do the work.
    """
    try:
        names = summariser_names(settings, os.environ)
        return describe_summarisers(settings, os.environ), names == [LOCAL]
    except EndpointError as error:
        if not tolerant:
            raise
        return f"unknown here, as {error.problems[0].message}", False


def _show_look(
    output: Output, seen: Preview | NothingToCompact, summarisers: str, *, local: bool
) -> None:
    if isinstance(seen, NothingToCompact):
        output.show(f"Nothing to compact: {seen.reason}.")
    else:
        show_preview(output, seen, summarisers=summarisers, local=local)


def _conclude(output: Output, session: str, seen: Preview, came: Result | Interrupted) -> None:
    if isinstance(came, Interrupted):
        output.notice(
            "Interrupted: nothing was changed. What was answered already is kept for the next time."
            if came.withdrawn
            else "Interrupted, but a worker has the session and goes on."
        )
        raise typer.Exit(Exit.INTERRUPTED)
    if output.as_json:
        _document(output, session, seen, result=result_document(came))
    else:
        show_result(output, came)
    if not came.good:
        raise typer.Exit(Exit.FAILED)


def _document(output: Output, session: str, seen: Preview | NothingToCompact, **more: Any) -> None:
    if not output.as_json:
        return
    reason = seen.reason if isinstance(seen, NothingToCompact) else None
    output.document(
        {
            "session": session,
            "preview": None if isinstance(seen, NothingToCompact) else preview_document(seen),
            "nothing_to_compact": reason,
            "job": None,
            "result": None,
            **more,
        }
    )
