"""A rewind restores the session that would have been without the turns that it takes back."""

from __future__ import annotations

from typing import Any

import pytest

from storage.conversations import cursors, messages
from storage.conversations.cursors import CursorName
from storage.engine import Database
from tests.support.sessions.conversations import turn
from tests.support.sessions.stored_session import StoredSession, dump

pytestmark = pytest.mark.both_databases

TURNS = 6
ROWS = 4
"""Of a turn: request, call, result, answer."""


def make(database: Database, session_id: str, turns: int = TURNS) -> StoredSession:
    session = StoredSession.create(database, session_id)
    for number in range(turns):
        session.append(turn(number, words=20))
    return session


@pytest.fixture
def session(database: Database) -> StoredSession:
    return make(database, "s")


def absorb(session: StoredSession, *turns: int) -> None:
    """Absorb the agent's rows of some turns into the rolling summary."""
    wanted = {number * ROWS + place for number in turns for place in range(1, ROWS)}
    rows = [row for row in session.view() if row.position in wanted and not row.kind.is_marker]
    session.absorb(rows, f"summary of {turns}")


def shape(session: StoredSession) -> dict[str, Any]:
    """Return what of a session does not depend on how it came about."""
    with session.database.read() as connection:
        everything = messages.read_everything(connection, session.key)
    views = [
        [(row.position, row.kind, row.tokens, row.message, row.summary) for row in rows]
        for rows in (session.view(), everything)
    ]
    return {"views": views, "counted": session.counted(), "cursor": session.cursor()}


@pytest.mark.parametrize("cut", range(TURNS))
def test_the_view_is_the_one_that_the_session_would_have_had(
    database: Database, session: StoredSession, cut: int
) -> None:
    absorb(session, 0)
    absorb(session, 1, 2)
    session.defrag("shorter")
    absorb(session, 3)
    session.rewind(cut * ROWS)

    # The same without what was taken back: turns behind the cut, and passes that reach past it.
    twin = make(database, "twin", turns=cut)
    if cut > 0:
        absorb(twin, 0)
    if cut > 2:
        absorb(twin, 1, 2)
        twin.defrag("shorter")
    if cut > 3:
        absorb(twin, 3)
    assert shape(session) == shape(twin)
    assert session.counted() == session.live_rows()


def test_what_is_taken_back_is_marked_and_neither_live_nor_archived(
    session: StoredSession,
) -> None:
    absorb(session, 0, 1, 2)
    cut = 2 * ROWS
    rewound = session.rewind(cut)
    rows = dump(session.database)["messages"]
    behind = [row for row in rows if row["position"] >= cut and row["kind"] == "message"]
    assert len(behind) == (TURNS - 2) * ROWS
    assert {(r["active"], r["compacted"], r["absorbed_by"]) for r in behind} == {(0, 0, None)}
    assert all(row["content"] or row["fields"] for row in behind)
    (marker,) = [row for row in rows if row["kind"] == "micro"]
    assert (marker["active"], marker["compacted"]) == (0, 0)
    assert (rewound.cut, rewound.rows, rewound.summaries_undone) == (cut, len(behind), 1)


def test_rows_are_marked_whether_they_are_live_or_archived(session: StoredSession) -> None:
    absorb(session, 3, 4)
    absorbed = {p for p in range(3 * ROWS, 5 * ROWS) if p % ROWS}
    cut = 3 * ROWS
    with session.database.write() as connection:
        left, marked = messages.rewind(connection, session.key, cut=cut)
    rows = dump(session.database)["messages"]
    behind = [row for row in rows if row["position"] >= cut]
    assert {(r["active"], r["compacted"], r["absorbed_by"]) for r in behind} == {(0, 0, None)}
    assert marked == len(behind) == 3 * ROWS + 1
    live = [r for r in behind if r["kind"] == "micro" or r["position"] not in absorbed]
    assert (left.messages, left.tokens) == (len(live), sum(r["tokens"] for r in live))


def test_summaries_before_the_cut_stay(session: StoredSession) -> None:
    absorb(session, 0)
    absorb(session, 1)
    cursor = session.cursor()
    assert session.rewind(2 * ROWS).summaries_undone == 0
    assert [row.summary for row in session.view() if row.kind.is_marker] == ["summary of (1,)"]
    assert session.cursor() == cursor


def test_every_summary_that_reaches_past_the_cut_is_undone(session: StoredSession) -> None:
    absorb(session, 0)
    absorb(session, 1)
    session.defrag("a")
    absorb(session, 2)
    session.defrag("b")
    assert session.rewind(1 * ROWS).summaries_undone == 4
    statuses = [row["status"] for row in dump(session.database)["summaries"]]
    assert statuses == ["live", "undone", "undone", "undone", "undone"]


def test_positions_are_never_given_twice(session: StoredSession) -> None:
    end = session.record().next_position
    session.rewind(1 * ROWS)
    assert session.append(turn(7, words=20)) == range(end, end + ROWS)
    assert [row.position for row in session.view()] == [*range(ROWS), *range(end, end + ROWS)]


def test_a_rewind_closes_the_turn_and_makes_plans_stale(session: StoredSession) -> None:
    session.append(turn(TURNS)[:2], closes_turn=False)
    before = session.record()
    assert before.turn_open
    session.rewind(TURNS * ROWS)
    now = session.record()
    assert not now.turn_open
    assert now.revision > before.revision
    assert (now.turns, now.next_position) == (before.turns, before.next_position)


def test_a_cursor_behind_the_cut_comes_back_to_it(session: StoredSession) -> None:
    absorb(session, 0)
    with session.database.write() as connection:
        # As after an exchange that was skipped: no summary covers it.
        cursors.move(connection, session.key, CursorName.MICRO, 3 * ROWS)
    session.rewind(2 * ROWS)
    assert session.cursor() == 2 * ROWS


def test_rewinding_twice_goes_further_back(session: StoredSession) -> None:
    session.rewind(4 * ROWS)
    again = session.rewind(1 * ROWS)
    assert again.rows == 3 * ROWS
    assert [row.position for row in session.view()] == list(range(ROWS))
    assert session.counted() == session.live_rows()


def test_turns_can_be_found_archived_or_live_but_not_once_rewound(session: StoredSession) -> None:
    absorb(session, 0, 1)
    session.rewind(4 * ROWS)
    with session.database.read() as connection:
        starts = messages.turn_starts(connection, session.key, newest=3)
        assert starts == [3 * ROWS, 2 * ROWS, 1 * ROWS]
        assert messages.starts_turn(connection, session.key, 3 * ROWS)
        assert not messages.starts_turn(connection, session.key, 4 * ROWS)
        assert not messages.starts_turn(connection, session.key, 3 * ROWS + 1)
        assert messages.newest_request(connection, session.key) == 3 * ROWS
        assert messages.newest_request(connection, session.key, before=3 * ROWS) == 2 * ROWS


def test_another_session_is_left_alone(database: Database, session: StoredSession) -> None:
    other = make(database, "other")
    absorb(other, 0)
    before = shape(other)
    absorb(session, 0)
    session.rewind(0)
    assert shape(other) == before
    assert session.view() == []
    assert session.counted() == (0, 0)
