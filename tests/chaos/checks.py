"""What must be true of every session after a chaos run, counted anew from plain rows.

Nothing here asks the product what it thinks: expected messages come from the seed, and all that is
stored is read with SQL of this module's own. Each check gives the sentences that say what is wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from storage.engine import Database
from tests.chaos.script import ChatDict, Saying
from tests.support.sessions.gateways import rows_of

MICRO_KINDS = ("micro", "defrag")
MARKERS = ("batch", "micro")
IN_PLACE = ("defrag", "placeholder_replaced")


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row of `messages`, as it is stored."""

    id: int
    position: int
    kind: str
    role: str | None
    tokens: int
    active: int
    compacted: int
    absorbed_by: int | None
    summary_id: int | None
    content: str | None
    fields: str | None

    @property
    def message(self) -> ChatDict:
        """The chat dict that it stores."""
        if self.fields is None:
            return {"role": self.role, "content": self.content}
        message: ChatDict = json.loads(self.fields)
        if self.content is not None:
            message["content"] = self.content
        return message


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A row of `summaries`, without its text."""

    id: int
    kind: str
    status: str
    tokens: int
    last_position: int
    replaces: int | None


@dataclass(frozen=True, slots=True)
class Record:
    """All that is stored of a session."""

    key: int
    counters: dict[str, int]
    cursors: dict[str, int]
    rows: list[StoredMessage]
    summaries: dict[int, StoredSummary]
    events: list[tuple[str, int | None, int, int]]
    attempts: list[dict[str, Any]]

    @property
    def messages(self) -> list[StoredMessage]:
        return [row for row in self.rows if row.kind == "message"]

    @property
    def live(self) -> list[StoredMessage]:
        return [row for row in self.rows if row.active]


def read_records(database: Database) -> dict[str, Record]:
    """Return every session that is stored, by its id."""
    return {name: _read(database, name) for (name,) in rows_of(database, "SELECT id FROM sessions")}


def _read(database: Database, session: str) -> Record:
    def read(columns: str, table: str, order: str) -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM {table} WHERE session_key = :key ORDER BY {order}"
        return rows_of(database, query, key=key)

    names = "key, next_position, turns, turn_open, live_messages, live_tokens, passes, tokens_saved"
    quoted = names.replace("key,", '"key",', 1)
    (found,) = rows_of(database, f"SELECT {quoted} FROM sessions WHERE id = :id", id=session)
    counters = dict(zip(names.split(", "), found, strict=True))
    key = counters.pop("key")
    of_message = ", ".join(StoredMessage.__dataclass_fields__)
    of_summary = ", ".join(StoredSummary.__dataclass_fields__)
    of_attempt = "outcome, summary_id, tokens_before, tokens_after, passes"
    return Record(
        key=key,
        counters=counters,
        cursors=dict(read("name, position", "cursors", "name")),
        rows=[StoredMessage(*row) for row in read(of_message, "messages", "position, id")],
        summaries={row[0]: StoredSummary(*row) for row in read(of_summary, "summaries", "id")},
        events=[tuple(row) for row in read("event_id, turn, first_position, rows", *_EVENTS)],
        attempts=[
            dict(zip(of_attempt.split(", "), row, strict=True))
            for row in read(of_attempt, "attempts", "id")
        ],
    )


_EVENTS = ("turn_events", "first_position, id")


def check_session(session: str, record: Record | None, said: Sequence[Saying]) -> Iterator[str]:
    """Everything that one session alone must hold; no record where it is not stored."""
    if record is None:
        if said:
            yield f"{session}: {len(said)} turns were said and there is no such session"
        return
    for check in (_messages, _events, _users, _markers, _links, _counters, _cursors):
        for wrong in check(record, said):
            yield f"{session}: {wrong}"


def _messages(record: Record, said: Sequence[Saying]) -> Iterator[str]:
    """Yield each appended message exactly once, live or archived, word for word and in order."""
    expected = [message for saying in said for message in saying.messages]
    stored = record.messages
    if [row.position for row in stored] != list(range(len(stored))):
        yield "positions have gaps or doubles"
    if len(stored) != len(expected):
        yield f"{len(expected)} messages were appended and {len(stored)} are stored"
    for row, message in zip(stored, expected, strict=False):
        if json.dumps(row.message) != json.dumps(message) or row.role != message["role"]:
            yield f"the message at {row.position} is not the one that was appended there"
            return
    for row in stored:
        if (row.active, row.compacted) not in ((1, 0), (0, 1)):
            yield f"the message at {row.position} is neither live nor archived"
        if bool(row.compacted) != (row.absorbed_by is not None):
            yield f"the message at {row.position} is archived by nobody"


def _events(record: Record, said: Sequence[Saying]) -> Iterator[str]:
    """Yield each event exactly once, with its rows where they are."""
    expected = []
    position = turns = 0
    for saying in said:
        for part in saying.parts:
            turns += part.closes_turn
            turn = turns if part.closes_turn else None
            expected.append((part.event_id, turn, position, len(part.messages)))
            position += len(part.messages)
    if record.events != expected:
        odd = set(record.events) ^ set(expected)
        yield f"stored events are not those that were sent: {sorted(odd, key=repr)[:4]}"


def _users(record: Record, _said: Sequence[Saying]) -> Iterator[str]:
    """Micro-compaction absorbs nothing that a person wrote; the first and newest request stay."""
    requests = [row for row in record.messages if row.role == "user"]
    for row in requests:
        if row.absorbed_by is not None and record.summaries[row.absorbed_by].kind in MICRO_KINDS:
            yield f"a micro pass absorbed the request at {row.position}"
    for row in requests[:1] + requests[-1:]:
        if not row.active:
            yield f"the request at {row.position} is not live, the first or newest one"


def _markers(record: Record, _said: Sequence[Saying]) -> Iterator[str]:
    """At most one live batch and one live micro marker, in that order, as their summaries say."""
    markers = [row for row in record.live if row.kind != "message"]
    if [row.kind for row in markers] not in ([], ["batch"], ["micro"], ["batch", "micro"]):
        yield f"live markers: {[(row.kind, row.position) for row in markers]}"
    live = sorted(one.id for one in record.summaries.values() if one.status == "live")
    if sorted(row.summary_id or 0 for row in markers) != live:
        yield f"live summaries are {live} and other markers are shown"
        return
    for row in markers:
        summary = record.summaries[row.summary_id or 0]
        if (row.tokens, row.position) != (summary.tokens, summary.last_position):
            yield f"the marker at {row.position} is not where or what its summary says"


def _links(record: Record, _said: Sequence[Saying]) -> Iterator[str]:
    """Yield archived rows that lead, from summary to summary, to none that is shown."""
    absorbed = {row.summary_id: row.absorbed_by for row in record.rows if row.kind in MARKERS}
    instead = {one.replaces: one.id for one in record.summaries.values() if one.kind in IN_PLACE}
    for row in record.rows:
        at = row.absorbed_by
        seen: set[int] = set()
        while at is not None and record.summaries[at].status != "live" and at not in seen:
            seen.add(at)
            at = instead.get(at) or absorbed.get(at)
        if row.compacted and (at is None or record.summaries[at].status != "live"):
            yield f"what was at {row.position} cannot be reached from a live summary"
            return


def _counters(record: Record, said: Sequence[Saying]) -> Iterator[str]:
    """Yield the session's counters are what its rows come to."""
    appended = sum(row.tokens for row in record.messages)
    live = sum(row.tokens for row in record.live)
    counted = {
        "next_position": len(record.messages),
        "turns": len(said),
        "turn_open": 0,
        "live_messages": len(record.live),
        "live_tokens": live,
        "passes": len(record.summaries),
        "tokens_saved": appended - live,
    }
    for name, value in counted.items():
        if record.counters[name] != value:
            yield f"{name} is {record.counters[name]} and a recount gives {value}"
    passes = [one for one in record.attempts if one["summary_id"] is not None]
    if [one["passes"] for one in passes] != list(range(1, len(record.summaries) + 1)):
        yield "the recorded passes are not those that were made, each once"
    saved = sum(one["tokens_before"] - one["tokens_after"] for one in passes)
    if saved != counted["tokens_saved"]:
        yield f"recorded passes saved {saved} tokens, the rows say {counted['tokens_saved']}"


def _cursors(record: Record, said: Sequence[Saying]) -> Iterator[str]:
    """Yield the micro cursor stands behind what is archived, with nothing of the agent's left
    out."""
    if record.cursors.get("turns", 0) != len(said):
        yield f"{len(said)} turns were closed and {record.cursors.get('turns', 0)} looked at"
    micro = record.cursors.get("micro", 0)
    archived = max((row.position + 1 for row in record.messages if row.compacted), default=0)
    if not archived <= micro <= record.counters["next_position"]:
        yield f"the micro cursor is at {micro}, what is archived ends at {archived}"
    skipped = any(one["outcome"] == "skipped" for one in record.attempts)
    passed = [
        row.position
        for row in record.live
        if row.kind == "message" and row.role != "user" and archived <= row.position < micro
    ]
    if passed and not skipped:
        yield f"the micro cursor went past live rows at {passed}"


def check_jobs(database: Database) -> Iterator[str]:
    """Yield jobs that are still open, and ended ones that still have a lease owner."""
    for number, kind, state, reason in rows_of(
        database,
        "SELECT id, kind, state, reason FROM jobs WHERE state IN ('due', 'running') ORDER BY id",
    ):
        yield f"job {number} ({kind}) is {state}, because: {reason}"
    for (number,) in rows_of(
        database, "SELECT id FROM jobs WHERE state IN ('done', 'dead') AND lease_owner IS NOT NULL"
    ):
        yield f"job {number} has ended and is still held"


def count_outcomes(records: Sequence[Record]) -> Counter[str]:
    """Return how many tries of all sessions had which outcome."""
    return Counter(one["outcome"] for record in records for one in record.attempts)
