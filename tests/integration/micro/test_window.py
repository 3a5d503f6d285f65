"""Sessions whose window leaves no room: turns are stored, no job crashes over them."""

from __future__ import annotations

from typing import Any

import pytest

from producers import WindowError
from storage import attempts
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, Turn, playing

SMALL: dict[str, Any] = {"protect_last_n": 4, "threshold_tokens": 2000}


def jobs_of(play: Play) -> list[tuple[Any, ...]]:
    return play.rows("SELECT DISTINCT kind, state FROM jobs ORDER BY kind, state")


def test_a_window_without_room_is_refused_at_the_door(sqlite_url: str) -> None:
    with playing(sqlite_url) as play:
        with pytest.raises(WindowError, match=r"^reserved_output: 8,192 "):
            play.gateway.open_session(context_window=8192, reserved_output=8192)
        assert play.rows("SELECT count(*) FROM sessions") == [(0,)]
        session = play.gateway.open_session(context_window=8192, model="m")
        with pytest.raises(WindowError, match=r"^context_window: "):
            play.gateway.set_model(session, "m", context_window=0)
        assert play.rows("SELECT model, context_window FROM sessions") == [("m", 8192)]


def test_a_reserve_kept_from_a_larger_model_blocks_compaction_until_it_is_corrected(
    sqlite_url: str,
) -> None:
    with playing(sqlite_url, **SMALL) as play:
        session = play.gateway.open_session("s", context_window=200_000, reserved_output=65_536)
        play.gateway.open_session("s", context_window=32_768)
        for number in range(12):
            play.say(session, Turn(turn(number), []))
            play.work_off()
        assert jobs_of(play) == [(JobKind.TURN.value, "done")]
        assert len(play.view(session)) == 12 * 4
        play.gateway.set_model(session, "m", context_window=32_768, reserved_output=4096)
        play.say(session, Turn(turn(12), []))
        assert any(o.outcome is Outcome.ABSORBED for job in play.work_off() for o in job.passes)


def test_a_micro_job_that_meets_such_a_window_ends_and_says_so(sqlite_url: str) -> None:
    with playing(sqlite_url, **SMALL) as play:
        session = play.gateway.open_session("s", context_window=200_000)
        for number in range(12):
            play.say(session, Turn(turn(number), []))
        play.work_one()
        play.gateway.open_session("s", reserved_output=200_000)
        worked = play.work_one()
        assert worked is not None
        assert worked.kind is JobKind.MICRO
        assert worked.passes[0].outcome is Outcome.NOTHING_DUE
        assert "leaves no room" in worked.passes[0].reason
        with play.database.read() as connection:
            (tried,) = attempts.newest(connection, session.key, limit=9)
        assert (tried.outcome, tried.threshold_tokens) == ("nothing_due", 0)
        assert {state for _, state in jobs_of(play)} == {"done"}
