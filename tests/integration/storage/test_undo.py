"""Compactions are taken back last in, first out, and leave the session as it was before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from storage import guards
from storage.conversations import cursors, messages, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.rows import Kind, Row
from storage.conversations.summaries import SummaryKind, SummaryStatus
from storage.engine import Database
from storage.guards import GuardName
from tests.support.sessions.conversations import turn
from tests.support.sessions.stored_session import StoredSession, dump

pytestmark = pytest.mark.both_databases

TURNS = 6


@pytest.fixture
def session(database: Database) -> StoredSession:
    stored = StoredSession.create(database)
    for number in range(TURNS):
        stored.append(turn(number, words=20, tools=2))
    return stored


def state(session: StoredSession) -> dict[str, Any]:
    """Return all that an undo has to bring back: rows with their flags and links, summaries,
    cursor, counters. What it leaves behind, withdrawn markers and undone summaries, is left out,
    and so is what only ever grows."""
    tables = dump(session.database)
    return {
        "messages": [row for row in tables["messages"] if row["active"] or row["compacted"]],
        "summaries": [row for row in tables["summaries"] if row["status"] != "undone"],
        "cursors": [row for row in tables["cursors"] if row["position"]],
        "sessions": [
            {name: value for name, value in row.items() if name not in {"revision", "passes"}}
            for row in tables["sessions"]
        ],
    }


def exchange(session: StoredSession, number: int) -> list[Row]:
    """Return the agent's live rows of a turn."""
    view = session.view()
    opens = [row.position for row in view if row.opens_turn] + [view[-1].position + 1]
    return [
        row
        for row in view
        if opens[number] < row.position < opens[number + 1] and not row.kind.is_marker
    ]


def absorb(number: int, text: str) -> Callable[[StoredSession], object]:
    return lambda session: session.absorb(exchange(session, number), text)


def defrag(text: str) -> Callable[[StoredSession], object]:
    return lambda session: session.defrag(text)


SEQUENCES = {
    "one pass": [absorb(0, "first")],
    "a rewrite": [absorb(0, "first, at length"), defrag("short")],
    "passes, then a rewrite": [
        absorb(0, "first"),
        absorb(1, "first and second"),
        defrag("both"),
    ],
    "passes over rewrites": [
        absorb(0, "first"),
        defrag("1"),
        absorb(1, "first and second"),
        defrag("2"),
        defrag("again"),
        absorb(2, "all of them"),
    ],
}


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
def test_undoing_one_by_one_restores_each_former_state(
    session: StoredSession, sequence: list[Callable[[StoredSession], object]]
) -> None:
    states = [state(session)]
    for step in sequence:
        step(session)
        assert session.counted() == session.live_rows()
        states.append(state(session))
    for former in reversed(states[:-1]):
        assert session.undo() is not None
        assert state(session) == former
        assert session.counted() == session.live_rows()


def test_an_undo_says_what_it_took_back(session: StoredSession) -> None:
    rows = exchange(session, 0)
    first = session.absorb(rows, "first")
    more = exchange(session, 1)
    second = session.absorb(more, "both")
    third = session.defrag("b")
    results = [session.undo() for _ in range(4)]
    assert [
        undone and (undone.summary_id, undone.kind, undone.rows_restored) for undone in results
    ] == [
        (third, SummaryKind.DEFRAG, 0),
        (second, SummaryKind.MICRO, len(more) + 1),
        (first, SummaryKind.MICRO, len(rows)),
        None,
    ]


def test_where_there_is_nothing_to_undo_nothing_changes(session: StoredSession) -> None:
    before = dump(session.database)
    assert session.undo() is None
    assert dump(session.database) == before


def test_an_undo_makes_plans_stale_and_automatic_passes_wait(session: StoredSession) -> None:
    session.absorb(exchange(session, 0), "first")
    with session.database.write() as connection:
        for name in (GuardName.MICRO_FAILURES, GuardName.DEFRAG_MARK, GuardName.ENDPOINT_FAILURES):
            guards.put(connection, session.database, session.key, name, count=2, subject=1)
    revision = session.record().revision
    session.undo()
    assert session.record().revision > revision
    with session.database.read() as connection:
        held = guards.read_all(connection, session.database, session.key)
    assert held.keys() == {GuardName.UNDONE, GuardName.ENDPOINT_FAILURES}
    assert held[GuardName.UNDONE].subject == TURNS


def test_rows_that_were_appended_since_stay(session: StoredSession) -> None:
    view = session.view()
    session.absorb(exchange(session, 0), "first")
    new = session.append(turn(TURNS, words=20))
    session.undo()
    assert [row.position for row in session.view()] == [row.position for row in view] + list(new)
    assert session.counted() == session.live_rows()


def test_an_undo_leaves_other_sessions_alone(database: Database, session: StoredSession) -> None:
    other = StoredSession.create(database, "other")
    other.append(turn(0))
    other.absorb(exchange(other, 0), "theirs")
    before = other.view(), other.record(), other.cursor()
    session.absorb(exchange(session, 0), "ours")
    session.undo()
    assert (other.view(), other.record(), other.cursor()) == before


def test_a_summary_can_be_opened_down_to_its_originals(session: StoredSession) -> None:
    originals = exchange(session, 0) + exchange(session, 1)
    behind_first = exchange(session, 0)[-1].position + 1
    first = session.absorb(exchange(session, 0), "first")
    second = session.absorb(exchange(session, 1), "both")
    third = session.defrag("b")
    with session.database.read() as connection:
        (live,) = summaries.all_live(connection, session.key)
        former = summaries.fetch(connection, second)
        everything = messages.read_everything(connection, session.key)
    assert (live.id, live.replaces, live.status) == (third, second, SummaryStatus.LIVE)
    assert (former.replaces, former.status) == (first, SummaryStatus.SUPERSEDED)
    assert former.cursor_before == behind_first
    archived = {
        row["position"]: row["absorbed_by"]
        for row in dump(session.database)["messages"]
        if row["compacted"] and row["kind"] == Kind.MESSAGE
    }
    assert set(archived.values()) == {first, second}
    assert list(archived) == [row.position for row in originals]
    assert [row.position for row in everything if not row.kind.is_marker] == list(
        range(session.record().next_position)
    )
    assert [row.summary for row in everything if row.kind.is_marker] == ["b"]


def test_a_compaction_writes_rows_of_its_own_and_leaves_those_that_stay(
    session: StoredSession,
) -> None:
    before = {row["id"]: row for row in dump(session.database)["messages"]}
    rows = exchange(session, 1)
    summary_id = session.absorb(rows, "first")
    now = {row["id"]: row for row in dump(session.database)["messages"]}
    changed = [now[i] for i in before if now[i] != before[i]]
    assert [row["id"] for row in changed] == [row.id for row in rows]
    flags = {"active": 0, "compacted": 1, "absorbed_by": summary_id}
    assert changed == [{**before[row.id], **flags} for row in rows]
    (marker,) = [row for i, row in now.items() if i not in before]
    assert (marker["kind"], marker["role"], marker["position"]) == (
        "micro",
        None,
        rows[-1].position,
    )
    assert (marker["summary_id"], marker["content"]) == (summary_id, None)


def test_only_rows_that_are_still_live_are_archived(session: StoredSession) -> None:
    rows = exchange(session, 0)
    session.absorb(rows, "first")
    before = dump(session.database)
    with session.database.write() as connection:
        ids = [row.id for row in rows]
        assert messages.archive(connection, ids, summary_id=1) == 0
        shown = messages.change_marker(connection, session.key, shows=404, summary_id=404, tokens=1)
        assert shown == 0
    assert dump(session.database) == before


def test_a_cursor_stands_at_the_beginning_until_it_is_moved(session: StoredSession) -> None:
    with session.database.write() as connection:
        assert cursors.read(connection, session.key, CursorName.MICRO) == 0
        cursors.move(connection, session.key, CursorName.MICRO, 7)
        cursors.move(connection, session.key, CursorName.MICRO, 5)
        assert cursors.read(connection, session.key, CursorName.MICRO) == 5
        assert cursors.read(connection, session.key, CursorName.TURNS) == 0
