"""Dead jobs as people and programs read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from afterturn.console import Output, plain
from afterturn.terms import attempt_name
from afterturn.words import NONE, cell, columns, count, facts, moment, moment_utc, number
from storage.dead_jobs import DeadJob


def show_dead(output: Output, jobs: Sequence[DeadJob]) -> None:
    """Print a table of dead jobs."""
    table = columns(">job", "owner", "session", "kind", "reason", ">attempts", "first", "last")
    for job in jobs:
        table.add_row(
            str(job.id),
            cell(job.owner),
            cell(job.session),
            cell(job.kind),
            cell(job.reason or NONE),
            number(job.attempt),
            moment(job.failed_first_at),
            moment(job.failed_last_at),
        )
    output.show(table)


def show_dead_one(output: Output, job: DeadJob) -> None:
    """Print all that is known of a dead job."""
    options = ", ".join(f"{name} {value}" for name, value in wordless(job.options).items())
    output.show(
        facts(
            [
                ("job", str(job.id)),
                ("owner", job.owner),
                ("session", job.session),
                ("work", attempt_name(job.kind, job.trigger)),
                ("queue", job.queue),
                ("trigger", f"{job.trigger}, strength {job.strength}"),
                ("options", options or "none"),
                ("reason", job.reason or NONE),
                ("attempts", f"{job.attempt}, summaries asked for in vain: {job.tries}"),
                ("made due", moment(job.created_at)),
                ("first failure", moment(job.failed_first_at)),
                ("last failure", moment(job.failed_last_at)),
            ]
        )
    )
    if job.trace:
        output.show("", "Where it failed:", Text(plain(job.trace.rstrip("\n"))))
    else:
        output.show("", "There is no traceback: it raised nothing that its worker lived to tell.")


def dead_document(job: DeadJob, *, trace: bool) -> dict[str, Any]:
    """A dead job for programs, with its frames where they are wanted."""
    document = {
        "id": job.id,
        "owner": job.owner,
        "session": job.session,
        "kind": job.kind,
        "queue": job.queue,
        "trigger": job.trigger,
        "strength": job.strength,
        "options": wordless(job.options),
        "attempts": job.attempt,
        "tries": job.tries,
        "reason": job.reason,
        "created_at": moment_utc(job.created_at),
        "first_failed_at": moment_utc(job.failed_first_at),
        "last_failed_at": moment_utc(job.failed_last_at),
    }
    return {**document, "trace": job.trace} if trace else document


def wordless(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job, with the length of a text in its place: a person wrote it."""
    return {
        name: value
        if value is None or isinstance(value, int | float)
        else f"({count(len(str(value)), 'character')})"
        for name, value in options.items()
    }
