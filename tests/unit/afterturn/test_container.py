"""How the image's commands get their secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterturn.container import with_secrets
from tests.support.programs.processes import Processes

FILES = {"db": "p@ss/w:rd%\n", "broker": " simple \n", "key": "sk-1\n", "none": "\n"}


def test_passwords_go_into_urls_and_keys_into_variables() -> None:
    found = with_secrets(
        {
            "DATABASE_URL": "postgresql://afterturn@postgres/afterturn?sslmode=require",
            "DATABASE_PASSWORD_FILE": "db",
            "BROKER_URL": "redis://redis:6379/0",
            "BROKER_PASSWORD_FILE": "broker",
            "OPENAI_API_KEY_FILE": "key",
            "OPENROUTER_API_KEY_FILE": "none",
            "OTHER": "kept",
        },
        FILES.__getitem__,
    )
    assert found == {
        "DATABASE_URL": "postgresql://afterturn:p%40ss%2Fw%3Ard%25@postgres/afterturn?sslmode=require",
        "BROKER_URL": "redis://:simple@redis:6379/0",
        "OPENAI_API_KEY": "sk-1",
        "OTHER": "kept",
    }


def test_a_password_in_a_url_gives_way_to_the_one_of_the_file() -> None:
    given = {"BROKER_URL": "rediss://u:old@h/1", "BROKER_PASSWORD_FILE": "broker"}
    assert with_secrets(given, FILES.__getitem__) == {"BROKER_URL": "rediss://u:simple@h/1"}


def test_a_password_without_a_url_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="there is no DATABASE_URL") as caught:
        with_secrets({"DATABASE_PASSWORD_FILE": "db"}, FILES.__getitem__)
    assert "p@ss" not in str(caught.value)


def test_the_process_becomes_the_command(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-2\n")
    shown = processes.python(
        *("-m", "afterturn.container", "sh", "-c", "echo $OPENAI_API_KEY $OPENAI_API_KEY_FILE $$"),
        env={"OPENAI_API_KEY_FILE": str(tmp_path / "key")},
    )
    assert shown.wait() == 0
    assert shown.output == f"sk-2 {shown.pid}\n"


def test_a_secret_that_is_not_there_is_named_by_its_file(processes: Processes) -> None:
    failed = processes.python(
        "-m", "afterturn.container", "true", env={"OPENAI_API_KEY_FILE": "/none-such"}
    )
    assert failed.wait() == 1
    assert "No such file or directory: '/none-such'" in failed.output
    assert "Traceback" not in failed.output
