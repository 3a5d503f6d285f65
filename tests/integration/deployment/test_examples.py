"""Each example runs as it says, on a SQLite file with the embedded worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.observing.waiting import wait_until
from tests.support.programs.processes import Child, Processes
from tests.support.sessions.pages import PROJECT, page

EXAMPLES = PROJECT / "examples"
LONG = 120.0


class Stage:
    """A SQLite file, and programs on it."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes = processes
        self._environment = {"DATABASE_URL": f"sqlite:///{folder / 'example.db'}"}

    def with_config(self, file: Path) -> None:
        self._environment["AFTERTURN_CONFIG"] = str(file)

    def begin(self, *words: str) -> Child:
        return self._processes.python(*words, env=self._environment)

    def run(self, *words: str) -> str:
        child = self.begin(*words)
        assert child.wait(LONG) == 0, child.output
        return child.output

    def example(self, name: str) -> str:
        return self.run(str(EXAMPLES / name))

    def start_workers(self) -> None:
        self.begin("-m", "afterturn", "up").wait_for("Ready.", LONG)


@pytest.fixture
def stage(processes: Processes, tmp_path: Path) -> Stage:
    return Stage(processes, tmp_path)


def test_every_example_is_run_by_a_test() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    assert {path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in tests} == set()


def test_the_chat_bot_is_compacted(stage: Stage, tmp_path: Path) -> None:
    stage.start_workers()
    program = tmp_path / "talk.py"
    program.write_text(
        "import io, runpy, sys\n"
        "sys.stdin = io.StringIO(''.join(f'What does station {n} report?\\n' for n in range(14)))\n"
        f"runpy.run_path({str(EXAMPLES / 'chat_bot.py')!r}, run_name='__main__')\n"
    )
    talked = stage.run(str(program))
    assert talked.count("14.2 °C and calm.") == 14
    assert "[0 tokens before]" in talked
    runs = ("-m", "afterturn", "runs", "weather", "--json")
    wait_until(lambda: '"absorbed"' in stage.run(*runs), "a micro pass", LONG)
    stage.run("-m", "afterturn", "compact", "weather", "--yes")
    assert "station 3" in stage.run("-m", "afterturn", "search", "station 3")
    assert "Took back summary" in stage.run("-m", "afterturn", "undo", "weather")


def test_asking_goes_on_with_a_smaller_view(stage: Stage) -> None:
    stage.start_workers()
    assert stage.example("ask.py").startswith("Answered from ")


def test_old_output_is_shown_short_and_read_again(stage: Stage) -> None:
    stage.with_config(EXAMPLES / "old_output.yaml")
    stage.start_workers()
    said = stage.example("old_output.py")
    assert "gave 300 lines" in said
    assert "Read again: 9,789 characters" in said


def test_recall_finds_what_was_decided(stage: Stage) -> None:
    said = stage.example("recall_tool.py")
    assert "We take the >>>hall<<< by the >>>river<<<." in said
    assert "limit: must be from 1 to 50, is 900" in said


def test_signals_are_heard(stage: Stage) -> None:
    stage.start_workers()
    said = stage.example("hear_signals.py")
    assert "compaction_finished: Done: " in said


def test_old_chats_come_in_and_are_compacted(stage: Stage, tmp_path: Path) -> None:
    stage.start_workers()
    file = tmp_path / "old.jsonl"
    file.write_text(stage.example("old_chats.py"), encoding="utf-8")
    assert "3 new" in stage.run("-m", "afterturn", "import", str(file), "--source", "archive")
    said = stage.run("-m", "afterturn", "recompact", "--source", "archive", "--yes")
    assert "3 compacted" in said


def test_the_pages_show_the_examples_as_they_are() -> None:
    (bot,) = page("docs/tutorial.md").blocks("python")
    assert bot == (EXAMPLES / "chat_bot.py").read_text(encoding="utf-8")
    shown = page("docs/howto/compaction.md").blocks("python")[0]
    assert shown.rstrip() in (EXAMPLES / "ask.py").read_text(encoding="utf-8")
