"""Sums alone rule out what a look at the rows would rule out too."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from producers import Session
from storage import messages
from storage.prospects import Prospect, read_prospects
from tests.chat import assistant, calling, user
from tests.conversations import SESSION_FILES, real_sessions
from tests.counting import counted
from tests.play import Play, Turn, playing, turns_of
from tests.prospecting import ruled_out
from workers.compression_settings import CompressionSettings
from workers.settings import Settings
from workers.settings_file import SettingsSource

SMALL: dict[str, Any] = {
    "protect_last_n": 6,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 150,
}
SESSIONS, TURNS = 4, 60
"""Of each file that are played turn by turn."""


@pytest.mark.parametrize("name", SESSION_FILES)
def test_whatever_sums_rule_out_in_real_sessions_their_rows_rule_out_too(
    name: str, database_url: str
) -> None:
    seen: Counter[tuple[bool, bool]] = Counter()
    with playing(database_url, **SMALL) as play:
        settings = play.shop.settings.current().compression
        for session_id, talked in islice(real_sessions(name), SESSIONS):
            session = play.gateway.open_session(session_id, context_window=1_000_000)
            for number, said in enumerate(islice(turns_of(talked), TURNS)):
                play.say(session, said)
                seen[ruled_out(play.database, session.key, settings)] += 1
                if number % 3 == 2:
                    play.work_off()
                    seen[ruled_out(play.database, session.key, settings)] += 1
    assert seen[True, False] == 0
    # Most of what nothing is due in is known by sums, or there would be no use in them; where all
    # is said in one turn there is one look.
    assert seen[True, True] > seen[False, True] or seen.total() < 10


def test_prospects_are_sums_of_what_is_live_behind_the_cursor(database_url: str) -> None:
    with playing(database_url, **SMALL) as play:
        talks = [play.gateway.open_session(context_window=1_000_000) for _ in range(3)]
        said = [user("one " * 50), assistant("two " * 90), user("three"), assistant("four " * 90)]
        play.gateway.finalize_turn(talks[0], said)
        with play.database.read() as connection:
            rows = [row.tokens for row in messages.read_view(connection, talks[0].key)]
            keys = [talk.key for talk in talks]
            agent, rest = rows[1] + rows[3], rows[2] + rows[3]
            all_of = sum(rows)
            for enough, expected in (
                (1, Prospect(agent, all_of, rest, rest, max(rows[1:]))),
                (rows[1], Prospect(agent, all_of, rest, rest, max(rows[1:]))),
                (rows[1] + 1, Prospect(agent, all_of, largest=rows[3])),
                (agent + 1, Prospect(agent, all_of)),
            ):
                found = read_prospects(connection, keys, enough=enough)
                assert found == {keys[0]: expected, keys[1]: Prospect(), keys[2]: Prospect()}


def said(play: Play, session: Session, words: int) -> bool:
    """Say a turn of an answer of so many words; gives whether sums were asked for to decide."""
    play.say(session, Turn([user("x"), assistant("word " * words)], []))
    with counted(play.database) as work:
        play.work_off()
    return any("AS placed" in text for text in work.texts)


def micro_jobs(play: Play) -> int:
    [(number,)] = play.rows("SELECT count(*) FROM jobs WHERE kind = 'micro'")
    return int(number)


def grown(play: Play) -> Session:
    """A session with something absorbed and a mark."""
    session = play.gateway.open_session(context_window=1_000_000)
    for _ in range(30):
        said(play, session, 60)
    assert micro_jobs(play)
    said(play, session, 5)
    assert not said(play, session, 5)
    return session


def test_sums_are_asked_for_again_only_when_the_session_has_grown_to_its_mark(
    database_url: str,
) -> None:
    with playing(database_url, **SMALL) as play:
        session = play.gateway.open_session(context_window=1_000_000)
        assert said(play, session, 40)
        asked = [said(play, session, 20) for _ in range(60)]
        # Not before the tail is full, and then about each pass, which changes the view.
        assert asked.index(True) > 10
        assert 3 <= micro_jobs(play) <= asked.count(True) <= 3 * micro_jobs(play)


def test_a_change_of_the_view_the_window_or_the_rules_makes_a_mark_void(database_url: str) -> None:
    def undo(play: Play, session: Session) -> None:
        assert play.gateway.undo(session) is not None

    def rewind(play: Play, session: Session) -> None:
        play.gateway.rewind(session)

    def shrink(play: Play, session: Session) -> None:
        play.gateway.open_session(session.id, context_window=15_000)

    def change(play: Play, _session: Session) -> None:
        rules = CompressionSettings(**{**SMALL, "micro_compact_min_tokens": 160})
        settings = Settings(database_url=database_url, compression=rules)
        play.shop = replace(play.shop, settings=SettingsSource.fixed(settings))

    for act in (undo, rewind, shrink, change):
        with playing(database_url, **SMALL) as play:
            session = grown(play)
            act(play, session)
            assert said(play, session, 5), act.__name__


def test_a_model_that_is_named_again_leaves_the_mark(database_url: str) -> None:
    with playing(database_url, **SMALL) as play:
        session = grown(play)
        play.gateway.open_session(session.id, context_window=1_000_000)
        assert not said(play, session, 5)


def test_where_sums_were_wrong_the_next_turns_look_at_the_rows(database_url: str) -> None:
    with playing(database_url, **SMALL) as play:
        session = play.gateway.open_session(context_window=1_000_000)
        # A call that nobody has answered is not absorbed, however large it is.
        call = calling("c1", arguments=json.dumps({"text": "word " * 600}))
        play.say(session, Turn([user("x"), call], []))
        asked = [said(play, session, 5) for _ in range(60)]
        assert asked[-1]
        assert micro_jobs(play) == 1
        assert play.rows("SELECT outcome FROM attempts") == [("nothing_due",)]
        # It is found none the less when there is something.
        for _ in range(40):
            said(play, session, 60)
        assert micro_jobs(play) > 1
        assert ("absorbed",) in play.rows("SELECT outcome FROM attempts")


def test_a_view_that_changes_after_each_turn_makes_no_job_for_nothing_each_time(
    database_url: str,
) -> None:
    with playing(database_url, **SMALL) as play:
        session = play.gateway.open_session(context_window=1_000_000)
        call = calling("c1", arguments=json.dumps({"text": "word " * 600}))
        play.say(session, Turn([user("x"), call], []))
        for number in range(40):
            play.gateway.open_session(session.id, model=f"m{number % 2}", context_window=1_000_000)
            said(play, session, 5)
        assert play.rows("SELECT outcome FROM attempts") == [("nothing_due",)]


def test_where_every_row_is_enough_there_is_one_job_for_nothing(database_url: str) -> None:
    with playing(database_url, **{**SMALL, "micro_compact_min_tokens": 0}) as play:
        session = play.gateway.open_session(context_window=1_000_000)
        for _ in range(6):
            said(play, session, 5)
        assert play.rows("SELECT outcome FROM attempts") == [("nothing_due",)]
