"""Whatever happens to a session in whatever order, its rows, counters and cursor agree."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from storage.conversations import messages
from storage.conversations.rows import Kind, Row
from storage.engine import Database
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.stored_session import StoredSession

pytestmark = pytest.mark.both_databases

STEPS = 40

Seen = tuple[int, str | None, Any]
"""Position, summary and message of a row."""


@dataclass
class Compaction:
    """A pass, or with no `rows` a rewrite of the summary where it is."""

    rows: set[int]
    place: int
    text: str
    cursor_before: int


@dataclass
class Expected:
    """A session as it should be, kept the simplest way: messages, and a stack of compactions."""

    messages: dict[int, dict[str, Any]] = field(default_factory=dict)
    stack: list[Compaction] = field(default_factory=list)
    cursor: int = 0

    @property
    def absorbed(self) -> set[int]:
        return {position for compaction in self.stack for position in compaction.rows}

    @property
    def view(self) -> list[Seen]:
        """The live view, in order."""
        absorbed = self.absorbed
        live: list[Seen] = [(p, None, m) for p, m in self.messages.items() if p not in absorbed]
        if self.stack:
            live.append((self.stack[-1].place, self.stack[-1].text, None))
        return sorted(live, key=lambda row: (row[0], row[1] is not None))

    def pop(self) -> None:
        compaction = self.stack.pop()
        if compaction.rows:
            self.cursor = compaction.cursor_before


@dataclass
class Walk:
    """Does the same thing to a stored session and to the expected one, at random."""

    session: StoredSession
    choice: random.Random
    expected: Expected = field(default_factory=Expected)
    step: int = 0

    def take_step(self) -> None:
        self.step += 1
        steps = (self.append, self.append, self.absorb, self.absorb, self.defrag, self.undo)
        self.choice.choice((*steps, self.rewind))()

    def append(self) -> None:
        answers = [assistant(f"{self.step}.{n}" * 9) for n in range(self.choice.randint(0, 4))]
        chat = [user(f"request {self.step}"), *answers]
        places = self.session.append(chat, closes_turn=self.choice.random() < 0.8)
        self.expected.messages |= dict(zip(places, chat, strict=True))

    def absorb(self) -> None:
        rows = [
            row
            for row in self.session.view()
            if row.role == "assistant" and row.position >= self.expected.cursor
        ]
        rows = rows[: self.choice.randint(0, len(rows))]
        if rows:
            place, text = rows[-1].position, f"summary {self.step}" * self.choice.randint(1, 5)
            self.session.absorb(rows, text)
            taken = {row.position for row in rows}
            compaction = Compaction(taken, place, text, self.expected.cursor)
            self.expected.stack.append(compaction)
            self.expected.cursor = place + 1

    def defrag(self) -> None:
        if self.expected.stack:
            text, place = f"rewrite {self.step}", self.expected.stack[-1].place
            self.session.defrag(text)
            self.expected.stack.append(Compaction(set(), place, text, 0))

    def undo(self) -> None:
        assert (self.session.undo() is not None) == bool(self.expected.stack)
        if self.expected.stack:
            self.expected.pop()

    def rewind(self) -> None:
        starts = [p for p, message in self.expected.messages.items() if message["role"] == "user"]
        if not starts:
            return
        cut = self.choice.choice(starts[-6:])
        self.session.rewind(cut)
        while self.expected.stack and self.expected.stack[-1].place >= cut:
            self.expected.pop()
        kept = {p: message for p, message in self.expected.messages.items() if p < cut}
        self.expected.messages = kept
        self.expected.cursor = min(self.expected.cursor, cut)

    def check(self) -> None:
        def seen(rows: list[Row]) -> list[Seen]:
            return [(row.position, row.summary, row.message) for row in rows]

        session, expected = self.session, self.expected
        view = session.view()
        assert seen(view) == expected.view
        assert session.counted() == session.live_rows()
        assert session.live_rows() == (len(view), sum(row.tokens for row in view))
        assert session.cursor() == expected.cursor
        with session.database.read() as connection:
            everything = messages.read_everything(connection, session.key)
            markers = messages.read_markers(connection, session.key)
            limit = len(view) // 2 + 1
            backward = messages.read_backward(connection, session.key, limit=limit)
            forward = messages.read_forward(
                connection, session.key, start=expected.cursor, limit=limit
            )
        originals = [row for row in everything if row.kind is Kind.MESSAGE]
        assert {row.position: row.message for row in originals} == expected.messages
        assert len(originals) == len(expected.messages)
        assert markers == [row for row in view if row.kind.is_marker]
        outlines = [(row.id, row.position, row.summary_id) for row in view]
        assert [(r.id, r.position, r.summary_id) for r in backward] == outlines[-limit:]
        behind = [outline for outline in outlines if outline[1] >= expected.cursor]
        assert [(r.id, r.position, r.summary_id) for r in forward] == behind[:limit]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_rows_counters_and_cursor_agree_after_every_step(database: Database, seed: int) -> None:
    walk = Walk(StoredSession.create(database), random.Random(seed))
    done = set()
    for _ in range(STEPS):
        walk.take_step()
        walk.check()
        done.add(len(walk.expected.stack))
    assert max(done) >= 3  # else the walk shows nothing


@pytest.mark.parametrize("seed", [5, 6])
def test_undoing_all_of_it_brings_every_message_back(database: Database, seed: int) -> None:
    walk = Walk(StoredSession.create(database), random.Random(seed))
    for _ in range(STEPS):
        walk.take_step()
    while walk.expected.stack:
        walk.undo()
    walk.check()
    assert [row.position for row in walk.session.view()] == list(walk.expected.messages)
