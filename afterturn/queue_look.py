"""How every queue stands: in the database, and at the broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from afterturn.broker import BrokerSilent, broker_application, queue_lengths
from afterturn.render.console import Output
from afterturn.render.fields import cell, columns
from afterturn.render.words import NONE, duration, moment, moment_utc, number
from afterturn.transport import TransportMissing
from storage.engine import Database
from storage.jobs import backlog, queue_states
from storage.jobs.backlog import Backlog
from storage.jobs.queue_states import PausedQueue
from tasks.names import QUEUES
from workers.settings.urls import masked_url


@dataclass(frozen=True, slots=True)
class QueueLook:
    """A queue: its jobs, and since when and why it is paused, None where it is not."""

    name: str
    jobs: Backlog
    paused: PausedQueue | None


@dataclass(frozen=True, slots=True)
class BrokerLook:
    """What the broker at `place` (a URL without secrets) holds: messages by queue, None where it
    did not tell, and then why not."""

    place: str
    messages: Mapping[str, int] | None
    problem: str = ""


def look_at_queues(connection: Connection, database: Database) -> list[QueueLook]:
    """Every queue of this version, then those that only the database knows."""
    jobs = backlog.by_queue(connection, database)
    paused = {one.name: one for one in queue_states.paused(connection)}
    others = sorted((jobs.keys() | paused.keys()) - set(QUEUES))
    return [
        QueueLook(name, jobs.get(name, Backlog()), paused.get(name)) for name in (*QUEUES, *others)
    ]


def look_at_broker(url: str) -> BrokerLook:
    """Ask the broker, for some seconds at the most."""
    place = masked_url(url)
    try:
        with broker_application(url) as app:
            return BrokerLook(place, queue_lengths(app))
    except TransportMissing as error:
        return BrokerLook(place, None, error.problem)
    except BrokerSilent as error:
        return BrokerLook(place, None, str(error))


def show_queues(output: Output, queues: list[QueueLook], broker: BrokerLook | None) -> None:
    """Print a table of queues, and what is to be known beside it."""
    messages = broker.messages if broker is not None else None
    table = columns(
        "queue", "state", ">due", ">oldest", ">waiting", ">running", ">dead",
        *([">messages"] if messages is not None else []),
    )  # fmt: skip
    for queue in queues:
        jobs = queue.jobs
        table.add_row(
            cell(queue.name),
            cell(_state(queue.paused)),
            number(jobs.due),
            NONE if jobs.oldest_ms is None else duration(jobs.oldest_ms),
            number(jobs.waiting),
            number(jobs.running),
            number(jobs.dead),
            *([number(messages.get(queue.name))] if messages is not None else []),
        )
    output.show(table)
    if broker is not None and broker.messages is None:
        output.notice(
            f"The broker {broker.place} does not tell ({broker.problem}). Jobs are kept in the "
            "database and rung for when it is back.",
            style="yellow",
        )


def queues_document(queues: list[QueueLook], broker: BrokerLook | None) -> dict[str, Any]:
    """The same for programs."""
    return {
        "queues": [
            {
                "name": queue.name,
                "paused": queue.paused is not None,
                "paused_since": moment_utc(queue.paused.since) if queue.paused else None,
                "paused_reason": queue.paused.reason if queue.paused else None,
                "due": queue.jobs.due,
                "waiting": queue.jobs.waiting,
                "running": queue.jobs.running,
                "dead": queue.jobs.dead,
                "oldest_due_seconds": None
                if queue.jobs.oldest_ms is None
                else queue.jobs.oldest_ms / 1000,
                "messages": broker.messages.get(queue.name)
                if broker is not None and broker.messages is not None
                else None,
            }
            for queue in queues
        ],
        "broker": None
        if broker is None
        else {"url": broker.place, "problem": broker.problem or None},
    }


def _state(paused: PausedQueue | None) -> str:
    if paused is None:
        return "works"
    why = f" ({paused.reason})" if paused.reason else ""
    return f"paused since {moment(paused.since)}{why}"
