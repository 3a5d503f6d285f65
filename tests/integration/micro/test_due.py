"""When a turn reads rows, and when it makes a micro pass due."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from producers import Session
from storage.conversations import sessions
from storage.conversations.micro_reads import read_state
from storage.conversations.sessions import SessionRecord
from tests.support.observing.counting import counted
from tests.support.sessions.chat import assistant, calling, user
from tests.support.sessions.conversations import SESSION_FILES, real_sessions
from tests.support.sessions.play import Play, Turn, playing, turns_of
from tests.support.sessions.unabsorbed import ruled_out
from workers.micro.plan import why_nothing_due
from workers.turn.due import least_for_micro, micro_may_be_due

SMALL: dict[str, Any] = {
    "protect_last_n": 6,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 150,
}
SESSIONS, TURNS = 4, 60
"""Of each file that are played turn by turn."""
LOST_CALL = calling("c1", arguments=json.dumps({"text": "word " * 600}))
"""A call that nobody answers is not absorbed, however large it is."""


@pytest.mark.parametrize("name", [name for name in SESSION_FILES if any(real_sessions(name))])
def test_what_the_count_rules_out_in_real_sessions_their_rows_rule_out_too(
    name: str, database_url: str
) -> None:
    seen: Counter[tuple[bool, bool]] = Counter()
    settled = rows_read = 0
    with playing(database_url, **SMALL) as play:
        settings = play.context.settings.current().compression
        for session_id, talked in islice(real_sessions(name), SESSIONS):
            session = play.gateway.open_session(session_id, context_window=1_000_000)
            for number, said in enumerate(islice(turns_of(talked), TURNS)):
                play.say(session, said)
                seen[ruled_out(play.database, session.key, settings)] += 1
                if number % 3 == 2:
                    play.work_off()
                    seen[ruled_out(play.database, session.key, settings)] += 1
                    settled += 1
                    rows_read += micro_may_be_due(record_of(play, session), settings)
                    assert not left_undone(play, session)
    assert seen[True, False] == 0
    # What was read once is remembered: a session that is worked off needs no look at its rows.
    assert rows_read <= settled // 10


def record_of(play: Play, session: Session) -> SessionRecord:
    with play.database.read() as connection:
        return sessions.fetch(connection, session.key)


def left_undone(play: Play, session: Session) -> bool:
    """Return whether a pass is due that the next turn would not have found for a reason of its
    own."""
    settings = play.context.settings.current().compression
    with play.database.read() as connection:
        state = read_state(connection, play.database, session.key)
        due = why_nothing_due(connection, state, settings) is None
        return due and micro_may_be_due(state.session, settings)


def say(play: Play, session: Session, words: int) -> bool:
    """Say a turn of an answer of so many words; return whether rows were read to decide."""
    play.say(session, Turn([user("x"), assistant("word " * words)], []))
    return reads(play)


def reads(play: Play) -> bool:
    with counted(play.database) as work:
        play.work_off()
    return any("part_ahead" in text for text in work.texts)


def micro_jobs(play: Play) -> int:
    [(number,)] = play.rows("SELECT count(*) FROM jobs WHERE kind = 'micro'")
    return int(number)


def unabsorbed(play: Play, session: Session) -> int:
    with play.database.read() as connection:
        return sessions.fetch(connection, session.key).unabsorbed_tokens


def least(play: Play, session: Session) -> int:
    with play.database.read() as connection:
        record = sessions.fetch(connection, session.key)
    found = least_for_micro(record, play.context.settings.current().compression)
    assert found is not None
    return found


def stuck(play: Play) -> Session:
    """Return a session with something absorbed whose tail is overfull with what cannot be
    absorbed."""
    session = play.gateway.open_session(context_window=1_000_000)
    for _ in range(30):
        say(play, session, 60)
    assert micro_jobs(play)
    play.say(session, Turn([user("x"), LOST_CALL], []))
    for _ in range(40):
        reads(play)
        say(play, session, 5)
    assert unabsorbed(play, session) > least(play, session)
    return session


def test_no_row_is_read_before_the_tail_can_be_full(database_url: str) -> None:
    with playing(database_url, **SMALL) as play:
        session = play.gateway.open_session(context_window=1_000_000)
        read = []
        for _ in range(60):
            worth_it = unabsorbed(play, session) >= least(play, session) - 40
            read.append(say(play, session, 20))
            assert worth_it or not read[-1]
        assert read.index(True) > 10
        assert 3 <= micro_jobs(play) <= read.count(True)


def test_rows_that_held_nothing_are_read_again_once_something_was_added_without_a_job(
    database_url: str,
) -> None:
    with playing(database_url, **SMALL) as play:
        session = play.gateway.open_session(context_window=1_000_000)
        play.say(session, Turn([user("x"), LOST_CALL], []))
        read = [say(play, session, 5) for _ in range(60)]
        assert micro_jobs(play) == 0
        assert all(read[read.index(True) :])
        # A turn job that comes late or twice finds nothing new.
        assert not reads(play)
        # A pass is found none the less when there is one.
        for _ in range(40):
            say(play, session, 60)
        assert ("absorbed",) in play.rows("SELECT outcome FROM attempts")


def undo(play: Play, session: Session) -> None:
    assert play.gateway.undo(session) is not None


def rewind(play: Play, session: Session) -> None:
    play.gateway.rewind(session)


def shrink(play: Play, session: Session) -> None:
    play.gateway.open_session(session.id, context_window=15_000)


@pytest.mark.parametrize("act", [undo, rewind, shrink])
def test_after_a_change_of_the_view_or_the_window_rows_are_read_at_once(
    database_url: str, act: Callable[[Play, Session], None]
) -> None:
    with playing(database_url, **SMALL) as play:
        session = stuck(play)
        act(play, session)
        assert say(play, session, 5)


def test_a_model_that_is_named_again_changes_nothing(database_url: str) -> None:
    with playing(database_url, **SMALL) as play:
        session = stuck(play)
        play.gateway.open_session(session.id, context_window=1_000_000)
        assert not micro_may_be_due(
            record_of(play, session), play.context.settings.current().compression
        )


def test_a_view_that_changes_after_each_turn_makes_no_job_for_nothing_each_time(
    database_url: str,
) -> None:
    with playing(database_url, **SMALL) as play:
        session = play.gateway.open_session(context_window=1_000_000)
        play.say(session, Turn([user("x"), LOST_CALL], []))
        for number in range(40):
            play.gateway.open_session(session.id, model=f"m{number % 2}", context_window=1_000_000)
            say(play, session, 5)
        assert micro_jobs(play) == 0


def test_where_every_row_is_enough_there_is_no_job_for_nothing(database_url: str) -> None:
    with playing(database_url, **{**SMALL, "micro_compact_min_tokens": 0}) as play:
        session = play.gateway.open_session(context_window=1_000_000)
        play.say(session, Turn([user("x"), LOST_CALL], []))
        for _ in range(6):
            say(play, session, 5)
        assert micro_jobs(play) == 0
        for _ in range(20):
            say(play, session, 60)
        # A pass for each turn, once the tail is full.
        outcomes = Counter(outcome for (outcome,) in play.rows("SELECT outcome FROM attempts"))
        assert outcomes["nothing_due"] == 0
        assert outcomes["absorbed"] > 10
