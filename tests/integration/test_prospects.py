"""Sums alone rule out what a look at the rows would rule out too."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import pytest

from storage import messages
from storage.prospects import Prospect, read_prospects
from tests.chat import assistant, user
from tests.conversations import SESSION_FILES, real_sessions
from tests.play import playing, turns_of
from tests.prospecting import ruled_out

SMALL: dict[str, Any] = {
    "protect_last_n": 6,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 150,
}
SESSIONS, TURNS = 4, 60
"""Of each file that are played turn by turn."""


@pytest.mark.parametrize("name", [name for name in SESSION_FILES if any(real_sessions(name))])
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
