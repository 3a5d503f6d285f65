"""From exceptions to exit codes and words."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from afterturn.exits import CommandError, Exit, explain
from storage.engine import Database, open_database
from storage.errors import DatabaseUnavailable, SchemaOutdated, SessionNotFound
from workers.settings.base import Problem, SettingsError


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (CommandError("say so", Exit.NOT_FOUND), Exit.NOT_FOUND, "say so"),
        (
            SettingsError((Problem("compression.threshold", "is out of range"),)),
            Exit.CONFIGURATION,
            "compression.threshold",
        ),
        (DatabaseUnavailable("no answer"), Exit.UNAVAILABLE, "no answer"),
        (SchemaOutdated("run `afterturn db upgrade`"), Exit.UNAVAILABLE, "db upgrade"),
        (SessionNotFound("s1", "ann"), Exit.NOT_FOUND, "owner 'ann' has no session 's1'"),
    ],
)
def test_each_kind_of_error_has_its_code(error: Exception, code: Exit, expected: str) -> None:
    failure = explain(error)
    assert failure.exit is code
    assert expected in failure.message


@pytest.mark.parametrize(
    ("keys", "path", "place"),
    [
        (["DATABASE_URL (environment)"], "c.yaml", "1 problem in the environment:"),
        (["worker.x"], "c.yaml", "1 problem in c.yaml:"),
        (["worker.x"], None, "1 problem in the settings:"),
        (["BROKER_URL (environment)", "x"], "c.yaml", "2 problems in c.yaml and the environment:"),
    ],
)
def test_problems_are_reported_with_the_place_that_they_are_in(
    keys: list[str], path: str | None, place: str
) -> None:
    problems = tuple(Problem(key, "is wrong") for key in keys)
    error = SettingsError(problems, None if path is None else Path(path))
    lines = explain(error).message.splitlines()
    assert lines == [place, *(f"  {key}: is wrong" for key in keys)]


def test_a_database_that_fails_is_reported_without_user_and_without_what_gateways_need() -> None:
    with pytest.raises(DatabaseUnavailable) as caught, open_url().read():
        pass
    message = explain(caught.value).message
    assert "postgresql+psycopg://***@127.0.0.1:1/x failed" in message
    assert "ann" not in message
    assert "nothing was stored" in str(caught.value)
    assert "stored" not in message


def open_url() -> Database:
    return open_database("postgresql://ann:hunter2@127.0.0.1:1/x")


def test_a_fault_of_ours_shows_its_kind_and_nothing_that_it_says() -> None:
    failure = explain(KeyError("text of a conversation"))
    assert failure.exit is Exit.FAULT
    assert "KeyError" in failure.message
    assert "conversation" not in failure.message


def test_debug_shows_where_a_fault_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    from afterturn.commands import setup
    from tests.support.programs.command_line import invoke

    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(setup, "load_settings", break_down)
    quiet, loud = invoke("config", "check"), invoke("--debug", "config", "check")
    assert (quiet.code, loud.code) == (Exit.FAULT, Exit.FAULT)
    assert "Traceback" not in quiet.err
    assert "break_down" in loud.err
    assert logging.getLogger().level != logging.DEBUG
