"""What is asked of a view is answered alike by what was read of it and by the database."""

from __future__ import annotations

import random
from uuid import uuid4

import pytest
from hypothesis import given
from sqlalchemy import Connection

from storage import messages, views
from storage.engine import Database
from storage.views import View
from tests.stored_session import StoredSession
from tests.strategies import Transcript, transcripts
from tests.tiers import examples
from workers.transcript import is_kept_by_micro

pytestmark = pytest.mark.both_databases

PAGES = (1, 3, 1000)


def assert_alike(connection: Connection, key: int, read: View) -> None:
    view = messages.read_view(connection, key)
    outline = messages.read_outline(connection, key)
    assert read.markers == [row for row in view if row.kind.is_marker]
    for limit in PAGES:
        assert list(read.backward(limit=limit)) == outline[-limit:]
        for position in range(-1, 2 + max((row.position for row in outline), default=0), 3):
            at = {"start": position, "limit": limit}
            assert list(read.forward(**at)) == messages.read_forward(connection, key, **at)
            for before in (position + 2, 10**9):
                found = read.agent_rows(before=before, **at)
                assert list(found) == messages.agent_rows(connection, key, before=before, **at)
    for position in range(len(view) + 1):
        calls = messages.live_calls_before(connection, key, position)
        assert read.calls_before(position) == calls
        newest = messages.newest_request(connection, key, before=position)
        assert read.newest_request(before=position) == newest
    assert read.newest_request() == messages.newest_request(connection, key)


@given(told=transcripts(max_turns=4))
@examples(30, any_health=True)
@pytest.mark.parametrize("passes", [0, 2])
def test_a_view_answers_as_the_database_does(
    database: Database, passes: int, told: Transcript
) -> None:
    session = StoredSession.create(database, uuid4().hex)
    session.append(told.messages, origins=told.origins)
    choice = random.Random(len(told.messages))
    for number in range(passes):
        rows = [row for row in session.view() if not is_kept_by_micro(row)]
        if rows:
            session.absorb(rows[: choice.randint(1, len(rows))], f"summary \ufdd0 {number}")
    with database.read() as connection:
        for first, last in ((0, 1000), (0, 1), (2, 3), (1000, 2), (0, len(session.view()))):
            read = views.read(connection, session.key, first=first, last=last)
            assert read.is_whole == (last > len(session.view()))
            assert_alike(connection, session.key, read)
