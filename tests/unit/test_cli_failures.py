"""From exceptions to exit codes and words."""

from __future__ import annotations

import logging

import pytest

from afterturn.exits import CommandError, Exit
from afterturn.failures import explain
from storage.errors import DatabaseUnavailable, SchemaOutdated, SessionNotFound
from workers.setting_errors import Problem, SettingsError


@pytest.mark.parametrize(
    ("error", "code", "told"),
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
def test_each_kind_of_error_has_its_code(error: Exception, code: Exit, told: str) -> None:
    failure = explain(error)
    assert failure.exit is code
    assert told in failure.message


def test_a_fault_of_ours_shows_its_kind_and_nothing_that_it_says() -> None:
    failure = explain(KeyError("text of a conversation"))
    assert failure.exit is Exit.FAULT
    assert "KeyError" in failure.message
    assert "conversation" not in failure.message


def test_debug_shows_where_a_fault_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    from afterturn.commands import config
    from tests.command_line import invoke

    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(config, "load_settings", break_down)
    quiet, loud = invoke("config", "check"), invoke("--debug", "config", "check")
    assert (quiet.code, loud.code) == (Exit.FAULT, Exit.FAULT)
    assert "Traceback" not in quiet.err
    assert "break_down" in loud.err
    assert logging.getLogger().level != logging.DEBUG
