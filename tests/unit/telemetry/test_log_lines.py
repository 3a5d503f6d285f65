"""How a line of the log reads, as text and as JSON."""

from __future__ import annotations

import json
import logging
import re

import pytest

from afterturn.telemetry import JsonLines
from tests.support.programs.processes import PROJECT
from workers.telemetry.log_lines import LOG_LINES, Field, LogEvent, log_event

log = logging.getLogger("tests.lines")
FLOORS = ("workers", "tasks", "producers", "schedules", "afterturn")


def line(caplog: pytest.LogCaptureFixture) -> dict[str, object]:
    found = json.loads(JsonLines().format(caplog.records[-1]))
    assert isinstance(found, dict)
    return found


@pytest.fixture(autouse=True)
def _everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def test_a_line_names_its_event_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    facts: dict[str, Field] = {
        "run": "12.3",
        "due": 2,
        "seconds": 0.25,
        "dead": False,
        "event_id": None,
    }
    log_event(log, LogEvent.RUN_ENDED, facts)
    assert caplog.records[-1].getMessage() == "run.ended run=12.3 due=2 seconds=0.250 dead=false"
    found = line(caplog)
    assert re.fullmatch(r"20\d\d-.*T.*\+00:00", str(found.pop("time")))
    assert found == {
        "level": "info", "logger": "tests.lines", "event": "run.ended", "run": "12.3", "due": 2,
        "seconds": 0.25, "dead": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["a b", "a=b", 'a"b', "a\nrun.ended run=1.1", "käse", "", "\x1b[1m"]
)
def test_a_name_never_looks_like_another_field_or_line(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    log_event(log, LogEvent.RUN_ENDED, {"session": name})
    message = caplog.records[-1].getMessage()
    assert message == f"run.ended session={json.dumps(name)}"
    assert message.isascii()
    assert message.isprintable()
    assert line(caplog)["session"] == name
    assert "\n" not in JsonLines().format(caplog.records[-1])


def test_a_line_of_others_keeps_its_message(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("a %s", "message")
    assert line(caplog)["message"] == "a message"
    assert "event" not in line(caplog)


def test_an_error_is_shown_without_its_own_text(caplog: pytest.LogCaptureFixture) -> None:
    text = "violet"
    try:
        _ = {"blue": 1}[text]
    except KeyError:
        log.exception("it failed")
    found = line(caplog)
    assert found["error"] == "KeyError"
    assert "test_log_lines.py" in str(found["frames"])
    assert "violet" not in str(found["frames"]) + str(found["message"])


def test_nothing_is_made_of_a_line_that_nobody_wants(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    log_event(log, LogEvent.RUN_ENDED, {"run": "1.1"})
    assert caplog.records == []


def test_every_event_is_described_and_logged_somewhere() -> None:
    assert [line.event for line in LOG_LINES] == sorted(set(LogEvent), key=_place)
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for floor in FLOORS
        for path in (PROJECT / floor).rglob("*.py")
        if path.name != "log_lines.py"
    )
    for event in LogEvent:
        assert f"LogEvent.{event.name}" in code


def _place(event: LogEvent) -> int:
    return [line.event for line in LOG_LINES].index(event)
