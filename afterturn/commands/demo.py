"""`afterturn demo`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from afterturn.commands.options import AsJson
from afterturn.console import Output
from afterturn.demo.display import show_progress, show_report
from afterturn.demo.figures import Figures, flatness_of, verify
from afterturn.demo.play import Percentiles, open_stage, play, settle
from afterturn.demo.transcript import (
    Transcript,
    Turn,
    read_transcript,
    shipped_transcript,
    split_turns,
)
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.summarisers import describe_summarisers, summariser_names
from afterturn.words import count, facts
from storage import sessions
from workers.limits import session_threshold
from workers.settings import Settings
from workers.urls import database_url


def demo(
    context: typer.Context,
    *,
    transcript: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Conversation to play: a JSON list of chat messages, an object with `messages`, "
            "or JSON Lines with one such object a line. Default: the one that ships.",
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Which of several sessions in FILE. Default: the first."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Play at most so many turns.")] = None,
    window: Annotated[
        int, typer.Option(min=1000, help="Context window of the model in tokens.")
    ] = 128_000,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Play into this database, and keep it. Default: a temporary file."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play a long real conversation through the embedded stack, and check what became of it.

    Needs no server. Uses the default settings and the built-in summariser, unless --config in
    front of the command names a file: then its compression settings and its model are used.
    """
    output = Output(as_json=as_json)
    conversation = _read(transcript, session)
    if conversation.one_of_several:
        output.notice(
            f"Playing {conversation.id!r}, the first of several sessions in {transcript}; "
            "--session ID plays another."
        )
    turns = split_turns(conversation.messages)[:limit]
    settings, place = _settings(context), _database(database)
    if not as_json:
        _announce(output, conversation, turns, settings)
    figures = _perform(output, conversation, turns, settings, window=window, database=place)
    if as_json:
        output.document(figures.document())
    else:
        show_report(output.results, figures)
    if not figures.good:
        raise typer.Exit(Exit.FAILED)


def _perform(
    output: Output,
    conversation: Transcript,
    turns: tuple[Turn, ...],
    settings: Settings,
    *,
    window: int,
    database: str | None,
) -> Figures:
    started = time.monotonic()
    sent = [message for turn in turns for message in turn.messages]
    with open_stage(settings, database) as stage:
        session = stage.gateway.open_session(
            f"demo_{datetime.now(UTC):%Y%m%d_%H%M%S_%f}",
            source="demo",
            title=conversation.id,
            context_window=window,
        )
        with stage.database.read() as connection:
            record = sessions.fetch(connection, session.key)
        threshold = session_threshold(record, settings.compression).tokens
        measures = []
        with show_progress(output.progress, turns=len(turns), threshold=threshold) as progress:
            for measure in play(stage, session, turns):
                measures.append(measure)
                progress.turn(measure)
            progress.settling()
            open_jobs = settle(stage, session)
        findings = verify(stage.database, stage.gateway, session, sent)
    return Figures(
        transcript=conversation,
        session_id=session.id,
        turns=len(turns),
        messages=len(sent),
        window=window,
        threshold=threshold,
        summariser=", ".join(summariser_names(settings, os.environ)),
        seconds=time.monotonic() - started,
        open_jobs=open_jobs,
        measures=tuple(measures),
        findings=findings,
        finalize=Percentiles.of([measure.finalize_ms for measure in measures]),
        flatness=flatness_of(measures, threshold),
    )


def _read(file: Path | None, session: str | None) -> Transcript:
    if file is not None:
        return read_transcript(file, session)
    if session is not None:
        raise CommandError("--session chooses among those of --transcript FILE", Exit.USAGE)
    return shipped_transcript()


def _settings(context: typer.Context) -> Settings:
    """The defaults, unless a file was named: a demo sends no text to a model unasked."""
    invocation = Invocation.of(context)
    return Settings() if invocation.config is None else invocation.settings()


def _database(url: str | None) -> str | None:
    try:
        return None if url is None else database_url(url)
    except ValueError as error:
        raise CommandError(f"--database {error}", Exit.USAGE) from None


def _announce(
    output: Output, conversation: Transcript, turns: tuple[Turn, ...], settings: Settings
) -> None:
    messages = sum(len(turn.messages) for turn in turns)
    output.show(
        facts(
            [
                ("transcript", f"{conversation.id}: {conversation.source}"),
                ("played", f"{count(messages, 'message')} in {count(len(turns), 'turn')}"),
                ("summariser", describe_summarisers(settings, os.environ)),
            ]
        ),
        "",
    )
