"""Python processes of ours that a test starts, watches and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.support.servers.watchdog import Watchdog

PROJECT = Path(__file__).parents[3]

OURS_IN_ENVIRONMENT = ("DATABASE_URL", "BROKER_URL", "OPENAI_", "OPENROUTER_", "AFTERTURN_")
"""What a developer's own environment may hold and no test may see: names, or how they begin."""


class ChildError(AssertionError):
    """A child did not do in time what the test waits for; holds what it wrote."""


class Child:
    """A running process in a group of its own; `output` is all that it wrote so far."""

    def __init__(self, words: list[str], log: Path, environment: Mapping[str, str], cwd: Path):
        self.words = words
        self.log = log
        with log.open("wb") as written:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environment,
                start_new_session=True,
            )
        self._watchdog = Watchdog(-self._process.pid)
        self._killed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, timeout: float = 180.0) -> int:
        """Wait for its end and return its exit status; negative is the signal that ended it."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ChildError(self._complaint(f"still runs after {timeout} s")) from None

    def wait_for(self, text: str, timeout: float = 180.0) -> None:
        """Wait until it has written `text`."""
        deadline = time.monotonic() + timeout
        while text not in self.output:
            if not self.running and text not in self.output:
                raise ChildError(self._complaint(f"ended without writing {text!r}"))
            if time.monotonic() > deadline:
                raise ChildError(self._complaint(f"did not write {text!r} within {timeout} s"))
            time.sleep(0.02)

    def send(self, signal_: signal.Signals) -> None:
        """Send a signal to the process alone."""
        if self.running:
            os.kill(self.pid, signal_)

    def terminate(self) -> None:
        """Ask it to end, as an operator would (SIGTERM)."""
        self.send(signal.SIGTERM)

    def kill(self) -> None:
        """End it and all that it started with SIGKILL, as a crash would; no-op the second time."""
        if self._killed:
            return  # Its number may be another's by now.
        self._killed = True
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._watchdog.release()

    def _complaint(self, what: str) -> str:
        return f"{' '.join(self.words)} {what}. It wrote:\n{self.output}"


class Processes:
    """Starts Python with the project on its path; `close` kills what is still running."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: list[Child] = []

    def python(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Child:
        """Start `python *arguments` with `env` added to a clean environment.

        Clean: nothing that configures afterturn or a model, whatever the developer has set.
        """
        log = self._directory / f"child-{len(self._children)}.log"
        environment = {**clean_environment(), "PYTHONPATH": str(PROJECT), **(env or {})}
        child = Child([sys.executable, *arguments], log, environment, cwd or self._directory)
        self._children.append(child)
        return child

    def kill_all(self) -> None:
        """Kill every child."""
        for child in self._children:
            child.kill()

    def close(self) -> None:
        """Kill every child and print what each wrote, which pytest shows when a test failed."""
        self.kill_all()
        for child in self._children:
            sys.stdout.write(f"--- {' '.join(child.words)}\n{child.output}")


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what configures afterturn, a model or pytest.

    Children keep their bytecode, or each of them would compile the whole product at its start.
    """
    unwanted = (*OURS_IN_ENVIRONMENT, "PYTEST_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
