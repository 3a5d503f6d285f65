"""`afterturn compact`."""

from __future__ import annotations

import os
from threading import Event
from typing import Annotated, Any

import typer

from afterturn.commands.shared import AsJson, Preview, SessionId, Yes, agreed, check_consent
from afterturn.compaction.preview import preview_document, preview_pass, show_preview
from afterturn.compaction.result import RESULT, Result, show_result
from afterturn.compaction.run import Interrupted, ask, open_worker, work_until_done
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation, find_session
from afterturn.render.console import Output
from afterturn.render.fields import document
from afterturn.render.terms import LOCAL, describe_summarisers, summariser_names
from producers.arguments import RequestError, check_wishes
from storage.conversations.sessions import SessionRecord
from workers.batch.plan import NothingToCompact
from workers.batch.preview import Preview as Planned
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
    preview: Preview = False,
    yes: Yes = False,
    queue: Annotated[
        bool, typer.Option("--queue", help="Leave the work to the workers, and do not wait.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Summarise the middle of a session now, whatever its size and its guards.

    Shows first what stays, what is summarised and how much that saves; then asks.
    The work is done in this process, beside other workers.

    Nothing is deleted: `afterturn undo` takes it back.

    Exit code 1 when no summary could be had.
    """
    output = Output(as_json=as_json)
    check_consent("compact", preview=preview, yes=yes, as_json=as_json)
    invocation, interrupted = Invocation.of(context), Event()
    source = invocation.source()
    summarisers, local = _summarisers(source.current(), tolerant=preview or queue)
    with (
        invocation.database() as (database, _),
        open_worker(database, source, os.environ, interrupted) as worker,
    ):
        with database.read() as connection:
            record = find_session(connection, owner=invocation.owner, session_id=session)
        options = _options(record, focus=focus, keep_last=keep, up_to=up_to, around=around)
        planned = preview_pass(worker, record, options)
        if not as_json:
            _show_preview(output, planned, summarisers, local=local)
        if isinstance(planned, NothingToCompact) or preview:
            _document(output, session, planned)
            return
        if not yes and not agreed(output, "Compact it now?"):
            return
        asked, others = ask(database, record, options, source, notify=queue)
        if others:
            output.notice(
                "An earlier request for this session waits already: its options count.", "yellow"
            )
        if queue:
            _document(output, session, planned, job=asked.job_id)
            if not as_json:
                output.show(f"Job {asked.job_id} is due; a worker takes it.")
            return
        result = work_until_done(output, worker, asked, planned, interrupted)
    _finish(output, session, planned, result)


def _options(record: SessionRecord, **given: Any) -> CompactionOptions:
    try:
        return check_wishes(**given, next_position=record.next_position)
    except RequestError as error:
        message = str(error)
        for field, option in _OPTIONS.items():
            message = message.replace(field, option)
        raise CommandError(message, Exit.USAGE) from None


def _summarisers(settings: Settings, *, tolerant: bool) -> tuple[str, bool]:
    """Return who would be asked, in words, and whether that is the built-in one alone.

    Raises `EndpointError` if a key is missing, unless others do the work, who may have it.
    """
    try:
        names = summariser_names(settings, os.environ)
        return describe_summarisers(settings, os.environ), names == [LOCAL]
    except EndpointError as error:
        if not tolerant:
            raise
        return f"unknown here, as {error.problems[0].message}", False


def _show_preview(
    output: Output, planned: Planned | NothingToCompact, summarisers: str, *, local: bool
) -> None:
    if isinstance(planned, NothingToCompact):
        output.show(f"Nothing to compact: {planned.reason}.")
    else:
        show_preview(output, planned, summarisers=summarisers, local=local)


def _finish(output: Output, session: str, planned: Planned, result: Result | Interrupted) -> None:
    if isinstance(result, Interrupted):
        output.notice(
            "Interrupted: nothing was changed. What was answered already is kept for the next time."
            if result.withdrawn
            else "Interrupted, but a worker has the session and goes on."
        )
        raise typer.Exit(Exit.INTERRUPTED)
    if output.as_json:
        _document(output, session, planned, result=document(RESULT, result))
    else:
        show_result(output, result)
    if not result.good:
        raise typer.Exit(Exit.FAILED)


def _document(
    output: Output, session: str, planned: Planned | NothingToCompact, **more: Any
) -> None:
    if not output.as_json:
        return
    output.document(
        {
            "session": session,
            "preview": None if isinstance(planned, NothingToCompact) else preview_document(planned),
            "nothing_to_compact": planned.reason if isinstance(planned, NothingToCompact) else None,
            "job": None,
            "result": None,
            **more,
        }
    )
