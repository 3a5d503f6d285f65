"""A session that a test builds with storage's own functions, as gateways and workers do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, select

from producers.turn import draft_turn
from storage import guards, jobs
from storage.conversations import cursors, events, messages, sessions, summaries, undo
from storage.conversations.cursors import CursorName
from storage.conversations.rows import Kind, Row
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind, SummaryStatus
from storage.conversations.undo import Rewound, Undone
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import DueJob, JobKind
from storage.models import Base
from tests.support.sessions.unabsorbed import check_unabsorbed
from workers.conversation.markers import frame_tokens
from workers.conversation.tokens import estimate_text

on_postgresql = pytest.mark.parametrize("lasting_database", ["postgresql"], indirect=True)
"""Run a test that takes `database` on PostgreSQL alone."""


def later(database: Database, ms: int) -> Database:
    """Return the same database, `ms` milliseconds later."""
    return replace(database, offset_ms=database.offset_ms + ms)


def dump(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Everything that is stored, by table and in order of the primary key."""
    with database.read() as connection:
        return {
            table.name: [
                dict(row)
                for row in connection.execute(
                    select(table).order_by(*table.primary_key.columns)
                ).mappings()
            ]
            for table in Base.metadata.sorted_tables
        }


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A stored session and what may happen to it, each a transaction."""

    database: Database
    key: int

    @classmethod
    def create(cls, database: Database, session_id: str = "s", **facts: Any) -> StoredSession:
        values = {"owner": "o", "id": session_id, "source": "cli", **facts}
        with database.write() as connection:
            record = sessions.create(connection, database, values)
        assert record is not None, f"there is a session {session_id!r} already"
        return cls(database, record.key)

    def append(self, turn: Sequence[dict[str, Any]], **more: Any) -> range:
        """Store messages and what a turn makes due; return their positions."""
        with self.database.write() as connection:
            return self.append_in(connection, turn, **more)

    def append_in(
        self,
        connection: Connection,
        turn: Sequence[dict[str, Any]],
        *,
        origins: Sequence[str | None] | None = None,
        closes_turn: bool = True,
    ) -> range:
        """Return `append` in a transaction of the caller's."""
        drafts = draft_turn(turn, origins, closes_turn=True).rows
        tokens = sum(draft.tokens for draft in drafts)
        record = sessions.count_appended(
            connection,
            self.database,
            self.key,
            rows=len(drafts),
            tokens=tokens,
            closes_turn=closes_turn,
        )
        assert record is not None
        first = record.next_position - len(drafts)
        events.record(
            connection,
            self.key,
            event_id=uuid4().hex,
            digest="",
            turn=record.turns if closes_turn else None,
            first_position=first,
            rows=len(drafts),
            usage=None,
            view_tokens=None,
            revision=record.revision,
            at=record.active_at,
        )
        messages.append(connection, self.key, drafts, first_position=first, at=record.active_at)
        return range(first, record.next_position)

    def enqueue(self, kind: JobKind = JobKind.TURN, **more: Any) -> DueJob:
        """Make a job due, by default a turn's."""
        with self.database.write() as connection:
            return self.make_due_in(connection, kind, **more)

    def make_due_in(
        self, connection: Connection, kind: JobKind = JobKind.TURN, **more: Any
    ) -> DueJob:
        """Return `enqueue` in a transaction of the caller's."""
        facts = {"queue": f"{kind}s", "trigger": kind.value, **more}
        return jobs.enqueue(connection, self.database, self.key, kind=kind, **facts)

    def absorb(self, rows: Sequence[Row], text: str) -> int:
        """Absorb live messages into the rolling summary; return the summary's id."""
        with self.database.write() as connection:
            sessions.lock(connection, self.key)
            return self.absorb_in(connection, rows, text)

    def absorb_in(self, connection: Connection, rows: Sequence[Row], text: str) -> int:
        """Return `absorb` in a transaction of the caller's, who holds the session's row."""
        markers = messages.read_markers(connection, self.key)
        old = next((row for row in reversed(markers) if row.kind is Kind.MICRO), None)
        place = max(row.position for row in rows)
        tokens = estimate_text(text) + frame_tokens()
        summary_id = summaries.insert_summary(
            connection,
            self.database,
            self.key,
            kind=SummaryKind.MICRO,
            text=text,
            tokens=tokens,
            first_position=min(row.position for row in rows),
            last_position=place,
            replaces=old.summary_id if old else None,
            cursor_before=cursors.read(connection, self.key, CursorName.MICRO),
            template="t",
            model="m",
        )
        gone = [*rows, *([old] if old else [])]
        ids = [row.id for row in gone]
        assert messages.archive(connection, ids, summary_id=summary_id) == len(ids)
        if old is not None and old.summary_id is not None:
            summaries.set_status(connection, [old.summary_id], SummaryStatus.SUPERSEDED)
        messages.insert_marker(
            connection,
            self.database,
            self.key,
            kind=Kind.MICRO,
            position=place,
            tokens=tokens,
            summary_id=summary_id,
        )
        cursors.move(connection, self.key, CursorName.MICRO, place + 1)
        delta = tokens - sum(row.tokens for row in gone)
        sessions.count_change(
            connection, self.key, messages=1 - len(gone), tokens=delta, passes=1, saved=-delta
        )
        guards.clear(connection, self.key, GuardName.UNDONE)
        return summary_id

    def defrag(self, text: str) -> int:
        """Rewrite the rolling summary where it is; return the new summary's id."""
        tokens = estimate_text(text) + frame_tokens()
        with self.database.write() as connection:
            sessions.lock(connection, self.key)
            former = summaries.newest_live(connection, self.key)
            assert former is not None
            summary_id = summaries.insert_summary(
                connection,
                self.database,
                self.key,
                kind=SummaryKind.DEFRAG,
                text=text,
                tokens=tokens,
                first_position=former.first_position,
                last_position=former.last_position,
                replaces=former.id,
                cursor_before=cursors.read(connection, self.key, CursorName.MICRO),
                template="t",
                model="m",
            )
            hit = messages.change_marker(
                connection, self.key, shows=former.id, summary_id=summary_id, tokens=tokens
            )
            assert hit == 1
            summaries.set_status(connection, [former.id], SummaryStatus.SUPERSEDED)
            delta = tokens - former.tokens
            sessions.count_change(
                connection, self.key, messages=0, tokens=delta, passes=1, saved=-delta
            )
        return summary_id

    def undo(self) -> Undone | None:
        """Take back the last compaction."""
        with self.database.write() as connection:
            sessions.lock(connection, self.key)
            return undo.undo_newest(connection, self.database, self.key)

    def rewind(self, cut: int) -> Rewound:
        """Take back everything from position `cut` on."""
        with self.database.write() as connection:
            sessions.lock(connection, self.key)
            return undo.rewind_to(connection, self.key, cut)

    def view(self) -> list[Row]:
        """Return the live view."""
        with self.database.read() as connection:
            return messages.read_view(connection, self.key)

    def record(self) -> SessionRecord:
        """Return the session as it is now."""
        with self.database.read() as connection:
            return sessions.fetch(connection, self.key)

    def live_rows(self) -> tuple[int, int]:
        """Return how many rows are live and how many tokens they have, counted from the rows."""
        rows = [row for row in dump(self.database)["messages"] if row["session_key"] == self.key]
        live = [row["tokens"] for row in rows if row["active"]]
        return len(live), sum(live)

    def counted(self) -> tuple[int, int]:
        """Return the same as the session's counters have it, whose others are checked."""
        check_unabsorbed(self.database, self.key)
        record = self.record()
        return record.live_messages, record.live_tokens

    def cursor(self) -> int:
        """Return where micro-compaction stands."""
        with self.database.read() as connection:
            return cursors.read(connection, self.key, CursorName.MICRO)
