"""A decision reads what it is about, not the whole session (docs/explanation/cost.md)."""

from __future__ import annotations

from typing import Any

import pytest

from producers import Session
from storage.conversations import messages
from storage.conversations.micro_reads import read_state
from storage.conversations.rows import Row
from tests.support.observing.counting import counted
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, Turn, playing
from workers.micro.plan import NothingDue, why_nothing_due

SETTINGS: dict[str, Any] = {"protect_last_n": 8, "threshold_tokens": 4000}


def decide(play: Play, session: Session) -> tuple[NothingDue | None, int]:
    """Return what is decided of the session, and by how many statements."""
    settings = play.context.settings.current().compression
    with counted(play.database) as work, play.database.read() as connection:
        found = why_nothing_due(
            connection, read_state(connection, play.database, session.key), settings
        )
    return found, work.statements


def test_what_people_write_among_themselves_is_not_read_again_at_every_turn(
    sqlite_url: str,
) -> None:
    with playing(sqlite_url, **SETTINGS) as play:
        statements = []
        for size in (300, 3000):
            session = play.gateway.open_session(f"group of {size}")
            said = [{"role": "user", "content": f"message {n:05}"} for n in range(size)]
            play.say(session, Turn([*said, *turn(1)], []))
            found, count = decide(play, session)
            assert found is not None
            statements.append(count)
        assert statements[0] == statements[1]


def test_little_said_by_the_agent_among_much_by_people_is_absorbed_when_it_is_enough(
    sqlite_url: str,
) -> None:
    with playing(sqlite_url, **SETTINGS) as play:
        session = play.gateway.open_session("group")
        for number in range(12):
            said = [{"role": "user", "content": f"message {number}.{n}"} for n in range(100)]
            play.say(session, Turn([*said, *turn(number)], []))
            play.work_off()
        assert play.gateway.undo(session) is not None


def test_a_lost_call_in_the_head_of_a_long_turn_does_not_have_the_session_read(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    forward = messages.read_forward

    def noted(*given: Any, **more: Any) -> list[Row]:
        rows: list[Row] = forward(*given, **more)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(messages, "read_forward", noted)
    with playing(sqlite_url, **SETTINGS) as play:
        session = play.gateway.open_session("long")
        request, lost, *rest = turn(0, words=5, tools=4000)
        del rest[0]
        play.say(session, Turn([request, lost, *rest], []))
        found, _ = decide(play, session)
        assert found is None
        assert max(read) < 4000
