"""`afterturn sessions list` and `afterturn sessions show`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.console import Output
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from afterturn.overview import Fullness, Overview, read_overview
from afterturn.words import (
    cell,
    columns,
    count,
    duration,
    facts,
    moment,
    moment_utc,
    number,
    share,
)
from storage import sessions
from storage.attempts import AttemptRecord
from storage.jobs import JobRecord
from storage.sessions import SessionRecord
from workers.limits import DEFAULT_WINDOW

application = typer.Typer(help="List the stored sessions, or look at one.", no_args_is_help=True)


@application.command("list")
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
        output.document({"sessions": [_summary(*line) for line in lines], "next": mark})
        return
    if not page:
        owner = "" if all_owners else f" of owner {invocation.owner!r}"
        output.notice(f"There are no sessions{owner} here.")
        return
    _show_list(output, lines, all_owners=all_owners)
    if mark:
        output.notice(f"More: afterturn sessions list --before {mark}", style="dim")


@application.command()
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
        output.document(_whole(overview))
        return
    _show_one(output, overview)


def _show_list(
    output: Output, lines: list[tuple[SessionRecord, Fullness]], *, all_owners: bool
) -> None:
    owner = ("owner",) if all_owners else ()
    table = columns(
        *owner, "session", "source", "title", ">turns", ">live tokens", ">full", ">passes", "active"
    )
    for record, fullness in lines:
        table.add_row(
            *([cell(record.owner)] if all_owners else []),
            cell(record.id),
            cell(record.source),
            cell(record.title or ""),
            number(record.turns),
            number(record.live_tokens),
            share(fullness.occupancy),
            number(record.passes),
            moment(record.active_at) if record.ended_at is None else "ended",
        )
    output.show(table)


def _show_one(output: Output, overview: Overview) -> None:
    record, fullness = overview.session, overview.fullness
    summary, threshold = overview.rolling_summary, fullness.threshold
    chat = " / ".join(part for part in (record.chat_id, record.thread_id) if part)
    output.show(
        facts(
            [
                ("session", record.id),
                ("owner", record.owner),
                ("source", f"{record.source}, chat {chat}" if chat else record.source),
                *([("title", record.title)] if record.title else []),
                ("model", record.model or "not named"),
                ("window", _window(record)),
                (
                    "threshold",
                    f"{number(threshold.tokens)} tokens: {fullness.why}"
                    if threshold
                    else fullness.why,
                ),
                (
                    "live view",
                    f"{number(record.live_tokens)} tokens in "
                    f"{count(record.live_messages, 'message')}, "
                    f"{share(fullness.occupancy)} of the threshold",
                ),
                ("turns", number(record.turns) + (", one is open" if record.turn_open else "")),
                (
                    "passes",
                    f"{number(record.passes)}, {number(record.tokens_saved)} tokens saved",
                ),
                ("cursor", f"position {overview.cursor} of {record.next_position}"),
                (
                    "rolling summary",
                    f"{number(summary.tokens)} tokens for positions {summary.first_position} to "
                    f"{summary.last_position}"
                    if summary
                    else "none yet",
                ),
                ("started", moment(record.started_at)),
                ("last active", moment(record.active_at)),
                *([("ended", moment(record.ended_at))] if record.ended_at else []),
            ]
        )
    )
    _show_jobs(output, overview.open_jobs)
    _show_attempts(output, overview.attempts)


def _show_jobs(output: Output, open_jobs: tuple[JobRecord, ...]) -> None:
    if not open_jobs:
        output.show("", "No job is open.")
        return
    table = columns(">job", "kind", "state", "queue", "due at", ">attempt", "reason", title="Jobs")
    for job in open_jobs:
        table.add_row(
            str(job.id),
            job.kind,
            job.state,
            job.queue,
            moment(job.run_at),
            str(job.attempt),
            cell(job.reason or ""),
        )
    output.show("", table)


def _show_attempts(output: Output, attempts: tuple[AttemptRecord, ...]) -> None:
    if not attempts:
        return
    table = columns(
        "outcome", ">absorbed", ">live before", ">after", ">summary", "model", ">took",
        title="Last passes, oldest first",
    )  # fmt: skip
    for attempt in attempts:
        outcome = attempt.outcome
        if attempt.error_class:
            outcome += f" ({attempt.error_class})"
        table.add_row(
            outcome,
            number(attempt.absorbed_tokens),
            number(attempt.tokens_before),
            number(attempt.tokens_after),
            number(attempt.summary_tokens),
            cell(attempt.model),
            duration(attempt.total_ms),
        )
    output.show("", table)


def _window(record: SessionRecord) -> str:
    size = record.context_window
    words = (
        f"{number(size)} tokens" if size else f"{number(DEFAULT_WINDOW)} tokens assumed, none named"
    )
    if record.reserved_output:
        words += f", {number(record.reserved_output)} of them reserved for output"
    return words


def _summary(record: SessionRecord, fullness: Fullness) -> dict[str, Any]:
    threshold = fullness.threshold
    return {
        "id": record.id,
        "owner": record.owner,
        "source": record.source,
        "chat_id": record.chat_id,
        "thread_id": record.thread_id or None,
        "title": record.title,
        "model": record.model,
        "context_window": record.context_window,
        "reserved_output": record.reserved_output,
        "threshold_tokens": threshold.tokens if threshold else None,
        "occupancy": fullness.occupancy,
        "live_tokens": record.live_tokens,
        "live_messages": record.live_messages,
        "turns": record.turns,
        "turn_open": record.turn_open,
        "passes": record.passes,
        "tokens_saved": record.tokens_saved,
        "revision": record.revision,
        "started_at": moment_utc(record.started_at),
        "active_at": moment_utc(record.active_at),
        "ended_at": moment_utc(record.ended_at),
    }


def _whole(overview: Overview) -> dict[str, Any]:
    summary = overview.rolling_summary
    return {
        **_summary(overview.session, overview.fullness),
        "threshold_reason": overview.fullness.why,
        "next_position": overview.session.next_position,
        "cursor": overview.cursor,
        "rolling_summary": None
        if summary is None
        else {
            "tokens": summary.tokens,
            "first_position": summary.first_position,
            "last_position": summary.last_position,
        },
        "open_jobs": [
            {
                "id": job.id,
                "kind": job.kind,
                "state": job.state,
                "queue": job.queue,
                "run_at": moment_utc(job.run_at),
                "attempt": job.attempt,
                "reason": job.reason,
            }
            for job in overview.open_jobs
        ],
        "attempts": [
            {**asdict(attempt), "occupancy": attempt.occupancy} for attempt in overview.attempts
        ],
    }


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
