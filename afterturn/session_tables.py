"""Sessions as people read them: tables."""

from __future__ import annotations

from afterturn.console import Output
from afterturn.guard_words import HOLDING, guard_end, guard_sentence, is_over
from afterturn.overview import Fullness, Overview
from afterturn.terms import attempt_name, outcome_name, summary_name
from afterturn.words import cell, clock, columns, count, duration, facts, moment, number, share
from storage.attempts import AttemptRecord
from storage.job_records import JobRecord
from storage.jobs import JobState
from storage.sessions import SessionRecord
from storage.summaries import SummaryKind
from workers.limits import DEFAULT_WINDOW

WIDE = 100
"""Columns from which on a list has room for more than what sessions are looked for by."""


def show_list(
    output: Output, lines: list[tuple[SessionRecord, Fullness]], *, all_owners: bool
) -> None:
    """Print a table of sessions, with owner, source and title where they are wanted or fit."""
    wide = output.results.width >= WIDE
    rows = [_line(*line, wide=wide, all_owners=all_owners) for line in lines]
    table = columns(*rows[0])
    # An id is for copying: the title gives way, not the id.
    next(column for column in table.columns if column.header == "session").no_wrap = True
    for row in rows:
        table.add_row(*map(cell, row.values()))
    output.show(table)


def _line(
    record: SessionRecord, fullness: Fullness, *, wide: bool, all_owners: bool
) -> dict[str, str]:
    """The cells of a session by their headings."""
    line = {"owner": record.owner} if all_owners else {}
    line["session"] = record.id
    if wide:
        line |= {"source": record.source, "title": record.title or ""}
    return line | {
        ">turns": number(record.turns),
        ">live tokens": number(record.live_tokens),
        ">full": share(fullness.occupancy),
        "active": moment(record.active_at) if record.ended_at is None else "ended",
    }


def show_one(output: Output, overview: Overview) -> None:
    """Print all that is known of a session."""
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
                ("window", window_words(record)),
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
                *_batch_summary(overview),
                (
                    "rolling summary",
                    f"{number(summary.tokens)} tokens, covers up to position "
                    f"{summary.last_position}; last pass {summary.first_position} to "
                    f"{summary.last_position}"
                    if summary
                    else "none yet",
                ),
                ("started", moment(record.started_at)),
                ("last active", moment(record.active_at)),
                *([("ended", moment(record.ended_at))] if record.ended_at else []),
                *_guards(overview),
            ]
        )
    )
    _show_jobs(output, overview)
    _show_attempts(output, overview)


def _batch_summary(overview: Overview) -> list[tuple[str, str]]:
    shown = overview.batch_summary
    if shown is None:
        return []
    plain = shown.kind is SummaryKind.BATCH
    kind = "" if plain else f"; {summary_name(shown.kind)}"
    return [
        (
            "batch summary",
            f"{number(shown.tokens)} tokens, covers positions {shown.first_position} to "
            f"{shown.last_position}" + kind,
        )
    ]


def _guards(overview: Overview) -> list[tuple[str, str]]:
    lines = [
        f"{guard_sentence(name, guard)}; {guard_end(name, guard)}"
        for name, guard in overview.guards.items()
        if name in HOLDING and not is_over(guard)
    ]
    return [("guards" if number == 0 else "", line) for number, line in enumerate(lines)]


def _show_jobs(output: Output, overview: Overview) -> None:
    if overview.failures:
        output.show("", f"Failed tries in a row: {number(overview.failures)}.")
    if not overview.open_jobs:
        output.show("", "No job is open.")
        return
    wide = output.results.width >= WIDE
    rows = [_job(job, overview.now, wide=wide) for job in overview.open_jobs]
    table = columns(*rows[0], title="Jobs")
    for row in rows:
        table.add_row(*map(cell, row.values()))
    output.show("", table)


def _job(job: JobRecord, now: int, *, wide: bool) -> dict[str, str]:
    """The cells of an open job by their headings."""
    line = {
        ">job": str(job.id),
        "kind": attempt_name(job.kind, job.trigger),
        "state": job.state.value,
    }
    if wide:
        line["queue"] = job.queue
    return line | {
        "due at": clock(job.run_at, now),
        "next try": _next_try(job, now),
        ">attempt": str(job.attempt),
        "reason": job.reason or "",
    }


def _next_try(job: JobRecord, now: int) -> str:
    if job.state is not JobState.DUE:
        return "runs"
    return f"in {duration(job.run_at - now)}" if job.run_at > now else "now"


def _show_attempts(output: Output, overview: Overview) -> None:
    if not overview.attempts:
        return
    wide = output.results.width >= WIDE
    rows = [_attempt(attempt, overview, wide=wide) for attempt in overview.attempts]
    table = columns(*rows[0], title="Last passes, oldest first")
    for row in rows:
        table.add_row(*map(cell, row.values()))
    output.show("", table)


def _attempt(attempt: AttemptRecord, overview: Overview, *, wide: bool) -> dict[str, str]:
    """The cells of a try by their headings."""
    outcome = outcome_name(attempt.outcome)
    if attempt.error_class:
        outcome += f" ({attempt.error_class})"
    if attempt.summary_id in overview.undone:
        outcome += ", undone"
    name = attempt_name(attempt.kind, attempt.trigger) if wide else attempt.kind
    line = {
        "pass": name,
        "outcome": outcome,
        ">taken": number(attempt.absorbed_tokens),
        ">live before": number(attempt.tokens_before),
        ">after": number(attempt.tokens_after),
    }
    if wide:
        line |= {">summary": number(attempt.summary_tokens), "model": attempt.model}
    return line | {">took": duration(attempt.total_ms)}


def window_words(record: SessionRecord) -> str:
    """A session's window and reserve, and where they come from."""
    size, declared = record.context_window, record.declared_window
    words = (
        f"{number(size)} tokens" if size else f"{number(DEFAULT_WINDOW)} tokens assumed, none named"
    )
    if record.reserved_output:
        words += f", {number(record.reserved_output)} of them reserved for output"
    if declared is not None and declared < (size or DEFAULT_WINDOW):
        words += f"; the provider said in an error that it takes {number(declared)}"
    return words
