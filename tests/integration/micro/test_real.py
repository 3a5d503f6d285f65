"""Micro-compaction of real sessions."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest

from producers import Dialect
from storage.conversations.sessions import fetch
from tests.support.model.validity import check_view
from tests.support.sessions.conversations import SESSION_FILES, real_sessions, turn
from tests.support.sessions.play import Play, micro_markers, person_rows, playing, turns_of
from tests.tiers import sampled
from workers.rendering import render

SMALL: dict[str, Any] = {
    "protect_last_n": 6,
    "threshold_tokens": 2000,
    "micro_compact_min_tokens": 150,
}
EVERY = 8
"""Of the sessions of a file, where not all of them are played."""

TURN_BY_TURN = 1
"""Sessions of each file that are worked after every turn; the others once, as a backlog is."""


@pytest.mark.parametrize("name", SESSION_FILES)
def test_real_sessions_keep_every_word_and_render_in_every_dialect(
    name: str, sqlite_url: str
) -> None:
    absorbed = 0
    with playing(sqlite_url, **SMALL) as play:
        # The longest first, so that a sample holds sessions in which something is absorbed.
        talks = sorted(real_sessions(name), key=lambda talk: -len(str(talk[1])))
        for number, (session_id, messages) in enumerate(sampled(talks, every=EVERY)):
            absorbed += played(play, session_id, messages, by_turn=number < TURN_BY_TURN)
    assert absorbed > 0


def test_both_databases_come_to_the_same_view(database_url: str, sqlite_url: str) -> None:
    made = [message for number in range(30) for message in turn(number)]
    real = islice(real_sessions(SESSION_FILES[0]), 8)
    for session_id, messages in [("made", made), *sampled(real, every=4)]:
        views = []
        for place, url in (("given", database_url), ("sqlite", f"{sqlite_url}.{session_id}")):
            with playing(url, **SMALL) as play:
                session = play.gateway.open_session(f"{session_id}-{place}")
                for said in turns_of(messages):
                    play.say(session, said)
                    play.work_off()
                views.append(play.gateway.load_context(session).messages)
        assert json.dumps(views[0]) == json.dumps(views[1])


def played(play: Play, session_id: str, messages: list[dict[str, Any]], *, by_turn: bool) -> int:
    """Play a session, check all that must hold, and give how many rows were absorbed."""
    # A window that no session of these outgrows: nothing but micro-compaction is to run.
    session = play.gateway.open_session(session_id, context_window=1_000_000)
    for said in turns_of(messages):
        play.say(session, said)
        if by_turn:
            play.work_off()
    play.work_off()
    view, everything = play.view(session), play.everything(session)
    originals = [row for row in everything if not row.kind.is_marker]
    assert [json.dumps(row.message) for row in originals] == [json.dumps(m) for m in messages]
    assert person_rows(view) == person_rows(originals)
    assert len(micro_markers(view)) <= 1
    for dialect in Dialect:
        check_view(render(view, dialect), dialect)
    with play.database.read() as connection:
        record = fetch(connection, session.key)
    assert record.live_tokens == sum(row.tokens for row in view)
    assert record.live_messages == len(view)
    return len(everything) - len(view)
