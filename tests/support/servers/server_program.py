"""A server program that a test starts, stops, kills and pauses."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from pwd import getpwnam
from types import TracebackType
from typing import ClassVar, Self

import psutil

from tests.support.servers.watchdog import Watchdog

READY_SECONDS = 180.0
"""How long a server may take to answer; seconds, but far more on a machine under load."""

STOP_SECONDS = 30.0
PORTS_TO_TRY = 5


class ServerUnavailableError(Exception):
    """No server can be had, or it does not start; the message says which and what to do."""


class ServerProgram(ABC):
    """A server program on 127.0.0.1; it ends with this process, or with `life_line`'s owner.

    Port and files stay the same over `stop`, `kill` and `start`. `close` (or leaving the `with`
    block) ends it for good and removes its directory.
    """

    kind: ClassVar[str]
    ending: ClassVar[signal.Signals]
    """Ends the program, and with it what it started, in order."""

    last_resort: ClassVar[signal.Signals]
    """Ends the program, and with it what it started, when nobody is left to wait for it."""

    def __init__(self, *, life_line: Path | None = None) -> None:
        self.directory = new_directory(self.kind)
        self.port = free_port()
        self._life_line = life_line
        self._program: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None
        self._started_before = False

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it, as SQLAlchemy or Celery takes it."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _is_answering(self) -> bool: ...

    @property
    def user(self) -> str | None:
        """The account the program runs as, or None for this process's own."""
        return None

    @property
    def group(self) -> int | None:
        return None if self.user is None else getpwnam(self.user).pw_gid

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def pid(self) -> int:
        if self._program is None:
            raise ServerUnavailableError(f"{self.kind} is not running; call start() first")
        return self._program.pid

    @property
    def running(self) -> bool:
        return self._program is not None and self._program.poll() is None

    def start(self) -> None:
        """Start the program and return once it answers; no-op while it runs."""
        if self.running:
            return
        self._forget()
        for _ in range(PORTS_TO_TRY):
            self._launch()
            if self._wait_until_answering():
                self._started_before = True
                return
            self._forget()
            if self._started_before or "Address already in use" not in self._log_text():
                break
            self.port = free_port()
        raise ServerUnavailableError(
            f"{self.kind} did not start. The end of its log, {self.log}:\n"
            + "\n".join(self._log_text().splitlines()[-20:])
        )

    def stop(self) -> None:
        """End the program in order, as an operator would; no-op when it does not run."""
        self._end()
        self._forget()

    def kill(self) -> None:
        """End the program and all that it started with SIGKILL, as a crash would."""
        self._signal_all(signal.SIGKILL)
        self._forget()

    def pause(self) -> None:
        """Freeze it: connections stay open, and nothing answers any more."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused program go on."""
        self._signal_all(signal.SIGCONT)

    def close(self) -> None:
        """Stop it and remove its directory."""
        self._end()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._forget()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _launch(self) -> None:
        with self.log.open("ab") as log:
            self._program = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
                user=self.user,
                group=self.group,
                extra_groups=None if self.group is None else (),
            )
        self._watchdog = Watchdog(
            self._program.pid,
            ending=self.last_resort,
            directories=self._left_behind(),
            life_line=self._life_line,
        )

    def _left_behind(self) -> tuple[Path, ...]:
        if self._life_line is None:
            return (self.directory,)
        return (self.directory, self._life_line.parent)

    def _wait_until_answering(self) -> bool:
        deadline = time.monotonic() + READY_SECONDS
        while self.running and time.monotonic() < deadline:
            if self._is_answering():
                return True
            time.sleep(0.02)
        return False

    def _end(self) -> None:
        if self._program is None or not self.running:
            return
        self.resume()
        os.kill(self.pid, self.ending)
        try:
            self._program.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal_all(signal.SIGKILL)

    def _signal_all(self, signal_: signal.Signals) -> None:
        if not self.running:
            return
        program = psutil.Process(self.pid)
        family = [program, *program.children(recursive=True)]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.send_signal(signal_)
        if signal_ is signal.SIGKILL:
            _await_death(family)

    def _forget(self) -> None:
        if self._program is not None and self._program.poll() is None:
            self._signal_all(signal.SIGKILL)
        if self._program is not None:
            self._program.wait()
        if self._watchdog is not None:
            self._watchdog.release()
        self._program = self._watchdog = None

    def _log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def _await_death(family: list[psutil.Process]) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while any(map(_is_alive, family)) and time.monotonic() < deadline:
        time.sleep(0.005)


def _is_alive(member: psutil.Process) -> bool:
    # A zombie holds neither port nor memory, and only its parent can remove it.
    try:
        return bool(member.is_running() and member.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def new_directory(kind: str) -> Path:
    """Return a new directory under a path that every account may pass."""
    for parent in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):
        chain = (parent, *parent.parents)
        if parent.is_dir() and all(folder.stat().st_mode & 0o001 for folder in chain):
            break
    return Path(tempfile.mkdtemp(prefix=f"afterturn-{kind.lower()}-", dir=parent))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
