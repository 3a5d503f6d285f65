"""What a turn and a pass cost the database does not depend on how long the session is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from producers import Session
from storage.conversations import cursors, messages, sessions, summaries
from storage.conversations.cursors import CursorName
from storage.conversations.rows import Kind
from storage.conversations.summaries import SummaryKind
from storage.engine import Database
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.support.observing.counting import Work, counted
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import rows_of, url_of
from tests.support.sessions.play import Play, Turn, playing

COMPRESSION: dict[str, Any] = {
    "protect_last_n": 8,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 300,
    # A rewrite of the summary is a pass of another kind.
    "micro_compact_defrag_threshold_tokens": 100_000,
}
MEASURED_TURNS = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """Statements and rows written of a turn's three transactions, in this order."""

    finalize: Work
    turn_job: Work
    micro_job: Work


def long_session(database: Database, name: str, size: int) -> None:
    """Create a session of `size` messages, absorbed but for the exchanges of the last turns."""
    with playing(url_of(database), **COMPRESSION) as play:
        session = play.gateway.open_session(name, context_window=128_000)
        for first in range(0, size // 4, 1000):
            numbers = range(first, min(first + 1000, size // 4))
            chat = [message for number in numbers for message in turn(number, words=20)]
            play.gateway.finalize_turn(session, chat)
        absorb_at_one_go(database, session, start=4, end=size - 40)
        play.say(session, Turn(turn(1000), [None] * 4))
        play.work_off()


def absorb_at_one_go(database: Database, session: Session, *, start: int, end: int) -> None:
    """Write what passes over all exchanges between two positions would have written."""
    with database.write() as connection:
        rows = messages.read_forward(connection, session.key, start=start, limit=end)
        gone = [row for row in rows if row.position < end and not row.opens_turn]
        summary = summaries.insert_summary(
            connection,
            database,
            session.key,
            kind=SummaryKind.MICRO,
            text="Bookings were changed.",
            tokens=100,
            first_position=gone[0].position,
            last_position=gone[-1].position,
            replaces=None,
            cursor_before=0,
            template="test",
            model="test",
        )
        for i in range(0, len(gone), 1000):
            messages.archive(connection, [row.id for row in gone[i : i + 1000]], summary_id=summary)
        messages.insert_marker(
            connection,
            database,
            session.key,
            kind=Kind.MICRO,
            position=gone[-1].position,
            tokens=100,
            summary_id=summary,
        )
        cursors.move(connection, session.key, CursorName.MICRO, gone[-1].position + 1)
        delta = 100 - sum(row.tokens for row in gone)
        sessions.count_change(connection, session.key, messages=1 - len(gone), tokens=delta)


def costs_in_steady_state(play: Play, session: Session) -> list[Cost]:
    """Return what each of some further turns of one size costs; every one makes one pass due."""
    costs = []
    for number in range(2000, 2000 + 8 + MEASURED_TURNS):
        with counted(play.database) as finalize:
            play.say(session, Turn(turn(number), [None] * 4))
        with counted(play.database) as turn_job:
            decided = play.work_one()
        with counted(play.database) as micro_job:
            worked = play.work_one()
        assert play.work_one() is None
        if number < 2008:
            continue
        assert decided is not None
        assert decided.kind is JobKind.TURN
        assert worked is not None
        assert [one.outcome for one in worked.passes] == [Outcome.ABSORBED, Outcome.NOTHING_DUE]
        costs.append(Cost(finalize, turn_job, micro_job))
    return costs


def test_a_pass_writes_the_same_rows_by_the_same_statements_at_200_and_at_20000_messages(
    database: Database,
) -> None:
    measured = {}
    for size in (200, 20_000):
        name = f"of {size}"
        long_session(database, name, size)
        with playing(url_of(database), **COMPRESSION) as play:
            session = play.gateway.open_session(name)
            measured[size] = costs_in_steady_state(play, session)
            ((stored, archived),) = rows_of(
                database,
                "SELECT count(*), sum(compacted) FROM messages "
                "WHERE session_key = :key AND kind = 'message'",
                key=session.key,
            )
            assert stored >= size
            assert archived > 0.75 * stored - 50
    short, long = measured[200], measured[20_000]
    for of_short, of_long in zip(short, long, strict=True):
        assert of_long.finalize.texts == of_short.finalize.texts
        assert of_long.turn_job.texts == of_short.turn_job.texts
        assert of_long.micro_job.texts == of_short.micro_job.texts
        for part in ("finalize", "turn_job", "micro_job"):
            rows = getattr(of_long, part).rows_written
            assert rows == getattr(of_short, part).rows_written
            assert rows > 0
    # The exchange (three rows), the old marker and the new one, and the bookkeeping.
    assert {cost.micro_job.writes["messages"] for cost in long} == {2}
    assert max(cost.micro_job.rows_written for cost in long) <= 3 + 2 + 15
    assert {cost.finalize.rows_written for cost in long} == {4 + 3 + noted(database, 4)}


def noted(database: Database, messages: int) -> int:
    """Return how many rows a trigger writes for the search index, where the driver counts them
    in."""
    return messages if database.dialect == "sqlite" else 0


def test_a_turn_is_appended_by_one_statement_per_table_whatever_its_length(
    database: Database,
) -> None:
    with playing(url_of(database), **COMPRESSION) as play:
        session = play.gateway.open_session("s")
        expected = {"sessions": 1, "turn_events": 1, "messages": 1, "jobs": 1}
        for tools in (0, 1, 50, 500):
            with counted(database=play.database) as work:
                play.gateway.finalize_turn(session, turn(1, tools=tools))
            assert work.writes == expected
            assert work.statements == 4
            messages = 2 + 2 * tools
            assert work.rows_written == 3 + messages + noted(database, messages)
        with counted(play.database) as work:
            play.gateway.append(session, turn(1))
        assert work.writes == {"sessions": 1, "turn_events": 1, "messages": 1}
        assert work.statements == 3
