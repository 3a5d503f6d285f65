"""Lines of the log lead from a gateway's event to the commit, and hold no text."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from afterturn.telemetry import JsonLines
from storage import jobs
from storage.jobs import JobKind
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Turn, playing
from tests.support.sessions.stored_jobs import Worker
from tests.support.sessions.stored_session import StoredSession
from workers.runtime.jobs import Crashed, work
from workers.runtime.run_log import log_discarded
from workers.telemetry.log_lines import LOG_LINES, LogEvent

FIELDS = {line.event.value: set(line.fields) for line in LOG_LINES}
CANARY = "xylophone-canary"
COMPRESSION: dict[str, Any] = {
    "protect_last_n": 4,
    "threshold_tokens": 3000,
    "micro_compact_min_tokens": 300,
}


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return every line of ours so far, each with fields that are documented."""
    found = [json.loads(JsonLines().format(one)) for one in caplog.records]
    ours = [line for line in found if "event" in line]
    for line in ours:
        assert line.keys() - {"time", "level", "logger", "event"} <= FIELDS[line["event"]], line
    return ours


def test_an_event_is_followed_from_the_gateway_to_the_commit(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with playing(database_url, **COMPRESSION) as play:
        session = play.gateway.open_session("s", context_window=128_000)
        for number in range(6):
            said = turn(number)
            said[0]["content"] += f" {CANARY}"
            play.say(session, Turn(said, [None] * len(said)), event_id=f"event-{number}")
            play.work_off()
        play.say(session, Turn(said, [None] * len(said)), event_id="event-5")
    logged = lines(caplog)
    followed = [line for line in logged if line.get("event_id") == "event-5"]
    names = [(line["event"], line.get("kind"), line.get("outcome")) for line in followed]
    assert names[:4] == [
        ("turn.stored", None, None),
        ("run.ended", "turn", "done"),
        ("pass.ended", "micro", "absorbed"),
        ("pass.ended", "micro", "nothing_due"),
    ]
    assert names[4] == ("run.ended", "micro", "absorbed")
    stored, decided, absorbed, _, ended, again = followed
    assert stored["session"] == decided["session"] == absorbed["session"] == "s"
    assert stored["owner"] == decided["owner"] == absorbed["owner"] == "local"
    assert absorbed["run"] == ended["run"] != decided["run"]
    assert absorbed["tokens_before"] > absorbed["tokens_after"] > 0
    assert (ended["passes"], ended["attempt"], ended["trigger"]) == (2, 1, "micro")
    assert again["repeated"] is True
    assert CANARY not in caplog.text
    assert "booking" not in caplog.text


def test_runs_are_distinguished(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with playing(database_url) as play:
        session = play.gateway.open_session("s")
        for number in range(3):
            play.say(session, Turn(turn(number), [None] * 4))
            play.work_off()
    runs = [line["run"] for line in lines(caplog) if line["event"] == "run.ended"]
    assert len(set(runs)) == len(runs) == 3


def test_a_crash_is_one_line_with_its_class_and_when_it_is_tried_again(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def burst(point: str) -> None:
        if point == "decided":
            raise KeyError(CANARY)

    with playing(sqlite_url, failpoint=burst) as play:
        session = play.gateway.open_session("s")
        for _ in range(3):
            play.say(session, Turn(turn(1), [None] * 4))
            with play.database.write() as connection:
                [job] = jobs.notify_due(connection, play.database, again_after_ms=-1, limit=1)
            assert isinstance(work(play.context, job.id), Crashed)
    crashes = [line for line in lines(caplog) if line["event"] == LogEvent.RUN_CRASHED]
    assert [(line["error"], line["dead"]) for line in crashes] == [
        ("KeyError", False), ("KeyError", False), ("KeyError", True),
    ]  # fmt: skip
    assert [line.get("retry_seconds") for line in crashes] == [0.0, 0.0, None]
    assert CANARY not in caplog.text


def test_a_job_of_another_worker_is_named_by_its_run(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with playing(sqlite_url) as play:
        stored = StoredSession.create(play.database)
        claim = Worker(play.database).take(stored.enqueue(JobKind.MICRO))
        log_discarded(logging.getLogger("tests"), claim)
    [line] = lines(caplog)
    assert (line["run"], line["session"]) == (claim.run, "s")
