"""What is read of a view for a micro pass is what the database holds there."""

from __future__ import annotations

import random
from uuid import uuid4

import pytest
from hypothesis import given
from sqlalchemy import Connection

from storage.conversations import cursors, messages
from storage.conversations.cursors import CursorName
from storage.conversations.micro_reads import View, read_view
from storage.engine import Database
from tests.support.sessions.stored_session import StoredSession
from tests.support.sessions.strategies import Transcript, transcripts
from tests.tiers import examples
from workers.conversation.transcript import is_kept_by_micro

pytestmark = pytest.mark.both_databases

PAGES = (1, 3, 1000)


def assert_alike(connection: Connection, key: int, read: View, cursor: int) -> None:
    view = messages.read_view(connection, key)
    outline = messages.read_outline(connection, key)
    ahead = [row for row in outline if row.position >= cursor]
    assert read.markers == [row for row in view if row.kind.is_marker]
    assert read.head.rows == outline[: len(read.head.rows)]
    assert not read.head.is_whole or len(read.head.rows) == len(outline)
    assert read.ahead.rows == ahead[: len(read.ahead.rows)]
    assert not read.ahead.is_whole or len(read.ahead.rows) == len(ahead)
    if read.end.rows:
        ids = [row.id for row in outline[-len(read.end.rows) :]]
        end = [row.id for row in read.end.rows]
        # What a person wrote between the last marker and the cursor is no part of a tail.
        assert end == ids or (read.ahead.is_whole and end[1:] == ids[1:])
    assert not read.end.is_whole or len(read.end.rows) == len(outline)
    for limit in PAGES:
        assert read.ending(limit).rows == outline[-limit:]
        assert read.beginning(limit).rows == outline[:limit]
        assert read.beginning(limit).is_whole == (len(outline) < limit)
    for position in range(len(view) + 1):
        newest = messages.newest_request(connection, key, before=position)
        assert read.newest_request(before=position) == newest
    assert read.newest_request() == messages.newest_request(connection, key)


@given(transcript=transcripts(max_turns=4))
@examples(30, any_health=True)
@pytest.mark.parametrize("passes", [0, 2])
def test_a_view_answers_as_the_database_does(
    database: Database, passes: int, transcript: Transcript
) -> None:
    session = StoredSession.create(database, uuid4().hex)
    session.append(transcript.messages, origins=transcript.origins)
    choice = random.Random(len(transcript.messages))
    for number in range(passes):
        rows = [row for row in session.view() if not is_kept_by_micro(row)]
        if rows:
            session.absorb(rows[: choice.randint(1, len(rows))], f"summary \ufdd0 {number}")
        assert session.counted() == session.live_rows()
    with database.read() as connection:
        cursor = cursors.read(connection, session.key, CursorName.MICRO)
        whole = len([row for row in session.view() if row.position >= cursor])
        for head, ahead, end in ((0, 1000, 0), (3, 1, 3), (2, 3, 1000), (1000, whole + 1, 0)):
            read = read_view(
                connection, session.key, cursor=cursor, head=head, ahead=ahead, end=end
            )
            assert read.ahead.is_whole == (ahead > whole)
            assert_alike(connection, session.key, read, cursor)
