"""Pruning of real sessions, every one of every data file that is there.

Short ones are played one after another into one session, until they cross the trigger.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from producers import Dialect
from storage.conversations import sessions
from tests.support.model.validity import check_view
from tests.support.sessions.conversations import SESSION_FILES, real_sessions
from tests.support.sessions.play import Play, person_rows, playing, turns_of
from tests.support.sessions.strategies import ChatDict
from workers.conversation.tokens import estimate_message
from workers.conversation.transcript import tool_groups
from workers.rendering import render

TRIGGER = 12_000
SETTINGS: dict[str, Any] = {
    "threshold_tokens": 20_000,
    "protect_last_n": 8,
    "proactive_prune_tokens": TRIGGER,
    "proactive_prune_min_result_chars": 500,
    "proactive_prune_min_reclaim_tokens": 300,
    "micro_compact": False,
}


def joined(name: str) -> Iterator[tuple[str, list[ChatDict]]]:
    """Yield the sessions of a file, as many together as it takes to cross the trigger twice."""
    messages: list[ChatDict] = []
    tokens = 0
    first = ""
    for session_id, more in real_sessions(name):
        first = first or session_id
        # One system message to a session; the others' would stand in the middle.
        messages += more if not messages else [one for one in more if one["role"] != "system"]
        tokens += sum(map(estimate_message, more))
        if tokens >= 2 * TRIGGER:
            yield first, messages
            messages, tokens, first = [], 0, ""
    if messages:
        yield first, messages


@pytest.mark.parametrize("name", SESSION_FILES)
def test_real_sessions_render_in_every_dialect_and_give_every_byte_back(
    name: str, sqlite_url: str
) -> None:
    spared = before = 0
    with playing(sqlite_url, **SETTINGS) as play:
        for session_id, messages in joined(name):
            size, saved = played(play, session_id, messages)
            before, spared = before + size, spared + saved
    sys.stdout.write(f"{name}: {spared:,} of {before:,} tokens spared, {spared / before:.1%}\n")
    # CrossWOZ has no tools.
    assert (spared > 0) is (name != "crosswoz_test")


def played(play: Play, session_id: str, messages: list[ChatDict]) -> tuple[int, int]:
    """Play a session, check all that must hold, and give its size and what was spared of it."""
    session = play.gateway.open_session(session_id, context_window=1_000_000)
    for said in turns_of(messages):
        play.say(session, said)
    view = play.view(session)
    whole = [row.message for row in view]
    play.work_off()
    short = play.view(session)
    with play.database.read() as connection:
        record = sessions.fetch(connection, session.key)
    assert record.live_tokens == sum(row.tokens for row in short)
    assert tool_groups(short) == tool_groups(view)
    assert person_rows(short) == person_rows(view)
    for row, former in zip(short, view, strict=True):
        assert row.pruned or json.dumps(row.message) == json.dumps(former.message)
        assert row.tokens <= former.tokens
    for dialect in Dialect:
        check_view(render(short, dialect), dialect)
    assert [row.message for row in play.everything(session)] == whole
    spared = sum(row.tokens for row in view) - record.live_tokens
    assert play.gateway.unprune(session).tokens == spared
    assert [row.message for row in play.view(session)] == whole
    return sum(row.tokens for row in view), spared
