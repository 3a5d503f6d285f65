"""What the command line says about itself, and how it refuses wrong use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from afterturn.exits import Exit
from tasks.names import QUEUES
from tests.support.programs.command_line import ESCAPE, execute, invoke
from tests.support.programs.processes import PROJECT, clean_environment


def flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_help_documents_every_exit_code() -> None:
    shown = flat(invoke("--help").out)
    for code in Exit:
        assert f"{code.value} {code.meaning}" in shown


@pytest.mark.parametrize(
    "command",
    [
        ["demo"],
        ["up"],
        ["worker"],
        ["metrics"],
        ["flower"],
        ["sessions", "list"],
        ["sessions", "show"],
        ["context"],
        ["search"],
        ["explain"],
        ["compact"],
        ["undo"],
        ["status"],
        ["runs"],
        ["report"],
        ["audit"],
        ["import"],
        ["recompact"],
        ["recompact", "watch"],
        ["recompact", "stop"],
        ["recompact", "resume"],
        ["recompact", "list"],
        ["recompact", "show"],
        ["guards", "list"],
        ["guards", "clear"],
        ["signals"],
        ["queues"],
        ["queues", "pause"],
        ["queues", "resume"],
        ["queues", "drain"],
        ["dead", "list"],
        ["dead", "show"],
        ["dead", "retry"],
        ["dead", "drop"],
        ["config", "check"],
        ["config", "show-example"],
        ["db", "upgrade"],
        ["db", "current"],
        ["db", "reindex"],
        ["doctor"],
    ],
)
def test_every_command_explains_itself(command: list[str]) -> None:
    ended = invoke(*command, "--help")
    assert ended.code == Exit.OK
    assert f"Usage: afterturn {' '.join(command)}" in flat(ended.out)
    assert ESCAPE not in ended.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["sesions"], "No such command 'sesions'. Did you mean 'sessions'?"),
        (["sessions", "list", "--limit", "many"], "'--limit'"),
        (["sessions", "list", "--limit", "0"], "'--limit'"),
        (["sessions", "list", "--before", "yesterday"], "--before 'yesterday' is no mark"),
        (["sessions", "show"], "SESSION"),
        (["context", "x", "--dialect", "latin"], "'--dialect'"),
        (["queues", "pause", "micor"], "did you mean micro?"),
        (["queues", "pause"], "NAME"),
        (["queues", "resume"], "either queues or --all"),
        (["queues", "resume", "micro", "--all"], "either queues or --all"),
        (["dead", "show", "x"], "JOB"),
        (["dead", "list", "--kind", "x"], "'--kind'"),
        (["dead", "retry"], "either JOBs or a --reason"),
        (["dead", "drop", "1", "--reason", "x"], "either JOBs or a --reason"),
        (["worker", "--queues", "micor"], "did you mean micro?"),
        (["worker", "--queues", ","], "--queues names none of"),
        (["demo", "--database", "mysql://h/x"], "--database needs to start with"),
        (["demo", "--session", "x"], "--transcript"),
    ],
)
def test_wrong_use_is_reported_in_a_line_or_two(arguments: list[str], expected: str) -> None:
    ended = invoke(*arguments)
    assert ended.code == Exit.USAGE
    assert expected in ended.err
    assert ended.out == ""
    assert len(ended.err.splitlines()) <= 2


def test_the_version_is_shown() -> None:
    ended = invoke("--version")
    assert (ended.code, ended.err) == (Exit.OK, "")
    assert ended.out.startswith("afterturn ")


@pytest.mark.parametrize("command", [[], ["worker"], ["doctor"], ["compact"], ["db", "upgrade"]])
def test_flags_show_no_type(command: list[str]) -> None:
    assert "<bool>" not in invoke(*command, "--help").out


def test_names_of_queues_are_whole_in_a_narrow_help(tmp_path: Path) -> None:
    shown = flat(execute("worker", "--help", home=tmp_path, env={"COLUMNS": "80"}).out)
    assert ", ".join(QUEUES) in shown


def test_the_doctor_says_that_it_asks_models_and_how_to_avoid_it() -> None:
    shown = flat(invoke("doctor", "--help").out)
    assert "one tiny real request" in shown
    assert "--no-ask-model" in shown


def test_a_global_option_behind_the_command_is_sent_to_its_place() -> None:
    ended = invoke("doctor", "--config", "x.yaml")
    assert ended.code == Exit.USAGE
    assert "in front of the command" in ended.err


def test_a_command_without_arguments_shows_its_help() -> None:
    ended = invoke("sessions")
    assert ended.code == Exit.USAGE
    assert "Usage: afterturn sessions" in ended.out
    assert ended.err == ""


def test_the_example_is_printed_as_it_ships() -> None:
    ended = invoke("config", "show-example")
    assert ended.code == Exit.OK
    assert ended.out == (PROJECT / "afterturn" / "config.example.yaml").read_text("utf-8")


def test_importing_the_package_loads_nothing_heavy_until_it_is_used() -> None:
    program = (
        "import sys, afterturn\n"
        "heavy = {'openai', 'sqlalchemy', 'celery', 'pydantic', 'producers', 'typer'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "from afterturn import Gateway, load_settings\n"
        "assert Gateway.__module__ == 'producers.gateway'\n"
        "assert callable(load_settings)\n"
        "assert 'openai' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        env={**clean_environment(), "PYTHONPATH": str(PROJECT)},
        check=True,
        timeout=60,
    )


def test_the_package_has_no_other_names() -> None:
    import afterturn

    with pytest.raises(AttributeError, match="nonsense"):
        _ = afterturn.nonsense  # type: ignore[attr-defined]
