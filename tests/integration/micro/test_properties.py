"""What any number of micro passes must leave true, on generated transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from producers import Dialect, Session
from storage.conversations import sessions
from storage.conversations.micro_reads import read_state
from storage.conversations.rows import Row
from tests.support.model.validity import check_view
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import (
    Play,
    Turn,
    micro_markers,
    person_rows,
    playing,
    shape,
    turns_of,
)
from tests.support.sessions.strategies import Transcript, one_turn_transcripts, transcripts
from tests.tiers import examples
from workers.conversation.markers import frame_tokens
from workers.conversation.regions import head_end, tail_start
from workers.micro.plan import why_nothing_due
from workers.policy.threshold import region_rules, session_threshold
from workers.rendering import render
from workers.summariser.extractive.local import LocalSummariser

SMALL = {
    "protect_last_n": 3,
    "threshold_tokens": 1000,
    "target_ratio": 0.05,
    "micro_compact_min_tokens": 0,
    "micro_compact_defrag_threshold_tokens": 400,
}
"""A session in which passes are frequent: the tail is full at 50 tokens."""

slow = examples(25)


class Watch:
    """Sees the view before every pass and compares it with the view after it."""

    def __init__(self) -> None:
        self.play: Play | None = None
        self.session: Session | None = None
        self.before: list[list[tuple[Any, ...]]] = []
        self.in_pass = False

    def failpoint(self, point: str) -> None:
        if point == "planned":
            assert self.play is not None
            assert self.session is not None
            self.before.append(shape(self.play.view(self.session)))
            self.in_pass = True
        elif point == "after-commit" and self.in_pass:
            self.in_pass = False
            self.check()

    def check(self) -> None:
        assert self.play is not None
        assert self.session is not None
        view = self.play.view(self.session)
        if shape(view) == self.before[-1]:
            # A rewrite that was refused changes nothing that is seen.
            self.before.pop()
            return
        grown = sum(row.tokens for row in view) - sum(row[2] for row in self.before[-1])
        assert grown <= frame_tokens()
        assert len(micro_markers(view)) == 1


@contextmanager
def watched(**compression: Any) -> Iterator[tuple[Play, Session, Watch]]:
    watch = Watch()
    with (
        TemporaryDirectory() as folder,
        playing(
            f"sqlite:///{Path(folder) / 'play.db'}",
            failpoint=watch.failpoint,
            **{**SMALL, **compression},
        ) as play,
    ):
        session = play.gateway.open_session("one", context_window=128_000)
        watch.play, watch.session = play, session
        yield play, session, watch


def check_session(play: Play, session: Session, said: list[Turn]) -> list[Row]:
    """Everything that must be true between two jobs; return the view."""
    view = play.view(session)
    everything = play.everything(session)
    originals = [row for row in everything if not row.kind.is_marker]
    messages = [message for turn in said for message in turn.messages]
    assert [json.dumps(row.message) for row in originals] == [json.dumps(m) for m in messages]
    assert person_rows(view) == person_rows(originals)
    markers = micro_markers(view)
    assert len(markers) <= 1
    for dialect in Dialect:
        check_view(render(view, dialect), dialect)
    with play.database.read() as connection:
        record = sessions.fetch(connection, session.key)
    assert record.live_messages == len(view)
    assert record.live_tokens == sum(row.tokens for row in view)
    threshold = session_threshold(record, play.context.settings.current().compression)
    numbers = region_rules(threshold, play.context.settings.current().compression)
    for marker in markers:
        place = view.index(marker)
        assert head_end(view, numbers) <= place < tail_start(view, numbers)
    return view


@slow
@given(transcript=st.one_of(transcripts(max_turns=8), one_turn_transcripts(max_groups=25)))
def test_passes_lose_nothing_and_undoing_them_gives_every_former_view(
    transcript: Transcript,
) -> None:
    with watched() as (play, session, watch):
        turns = turns_of(transcript.messages, transcript.origins)
        for number, turn in enumerate(turns):
            play.say(session, turn)
            play.work_off()
            check_session(play, session, turns[: number + 1])
        for former in reversed(watch.before):
            assert play.gateway.undo(session) is not None
            now = shape(play.view(session))
            seen = {row[0] for row in former}
            last = max(seen, default=-1)
            assert [row for row in now if row[0] <= last] == former
        assert play.gateway.undo(session) is None
        assert not any(row.kind.is_marker for row in check_session(play, session, turns))


@slow
@given(transcript=transcripts(max_turns=8), data=st.data())
def test_a_rewind_at_any_turn_gives_the_view_that_the_session_would_have_had(
    transcript: Transcript, data: st.DataObject
) -> None:
    turns = turns_of(transcript.messages, transcript.origins)
    with watched() as (play, session, watch):
        for turn in turns:
            play.say(session, turn)
            play.work_off()
        everything = play.everything(session)
        starts = [row.position for row in everything if row.opens_turn]
        if not starts:
            return
        back = data.draw(st.integers(1, len(starts)))
        cut = starts[-back]
        expected = _without_what_reaches(play, session, watch, cut)
        play.gateway.rewind(session, turns=back)
        assert shape(play.view(session)) == expected
        kept = [r.message for r in play.everything(session) if not r.kind.is_marker]
        assert kept == [r.message for r in everything if not r.kind.is_marker and r.position < cut]
        # The session goes on as any other.
        play.say(session, Turn([{"role": "user", "content": "again"}], [None]))
        play.work_off()
        again: dict[str, Any] = {"role": "user", "content": "again"}
        check_session(play, session, [Turn([*(dict(m or {}) for m in kept), again], [])])


def _without_what_reaches(
    play: Play, session: Session, watch: Watch, cut: int
) -> list[tuple[Any, ...]]:
    """Return the view up to `cut` with only those passes that were made before any reached past
    it."""
    made = play.rows(
        "SELECT last_position FROM summaries WHERE session_key = :key ORDER BY id", key=session.key
    )
    reaching = [last >= cut for (last,) in made]
    kept = reaching.index(True) if True in reaching else len(reaching)
    view = shape(play.view(session)) if kept == len(reaching) else watch.before[kept]
    last = max((row[0] for row in view), default=-1)
    later = [
        row
        for row in shape(r for r in play.everything(session) if not r.kind.is_marker)
        if last < row[0] < cut
    ]
    return [row for row in view if row[0] < cut] + later


@slow
@given(transcript=transcripts(max_turns=8))
def test_a_backlog_is_worked_off_by_one_job(transcript: Transcript) -> None:
    turns = turns_of(transcript.messages, transcript.origins)
    with watched() as (play, session, _):
        for turn in turns:
            play.say(session, turn)
        play.work_off()
        check_session(play, session, turns)
        with play.database.read() as connection:
            settings_now = play.context.settings.current().compression
            assert (
                why_nothing_due(
                    connection, read_state(connection, play.database, session.key), settings_now
                )
                is not None
            )


def test_a_turn_of_two_hundred_tool_groups_is_cut_between_them_once_it_is_closed() -> None:
    messages = turn(0, words=30, tools=200)
    with watched(micro_compact_min_tokens=500) as (play, session, watch):
        play.gateway.append(session, messages[:-1])
        assert play.work_off() == []
        play.say(session, Turn(messages[-1:], [None]))
        play.work_off()
        view = check_session(play, session, [Turn(messages, [])])
        assert len(watch.before) == 1
        assert view[0].opens_turn
        assert len(view) < 20


def test_a_turn_larger_than_the_summarisers_input_is_absorbed_in_as_few_parts_as_fit() -> None:
    messages = turn(0, words=900, tools=120)
    with watched() as (play, session, watch):
        play.say(session, Turn(messages, []))
        play.work_off()
        check_session(play, session, [Turn(messages, [])])
        size = sum(len(str(message)) for message in messages)
        assert 2 <= len(watch.before) <= -(-size // LocalSummariser().room(3_000)) + 1


def test_an_open_turn_is_left_alone_while_older_exchanges_are_absorbed() -> None:
    with watched() as (play, session, _):
        for number in range(12):
            play.say(session, Turn(turn(number), []))
        running = turn(99, tools=30)
        receipt = play.gateway.append(session, running[:-1])
        play.work_off()
        view = play.view(session)
        assert len(micro_markers(view)) == 1
        assert [row.message for row in view if row.position >= receipt.first_position] == running[
            :-1
        ]
