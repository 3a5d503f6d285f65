"""The processes of a chaos run: each has a post, and when it ends another one takes it."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from tests.chaos.later import Later
from tests.chaos.monkey import clock_error
from tests.support.programs.processes import Child, Processes

STOP_SECONDS = 90.0
"""Within which a worker that was asked to has to stop: its model answers in seconds."""

_DOOM_SECONDS = 8.0
"""How long a worker is given to reach the step at which something is to happen to it."""

_TAIL_LINES = 30


class Role(StrEnum):
    WORKER = "worker"
    BEAT = "beat"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Program:
    """How a process of a name is started: words behind `python`, and what its environment adds."""

    words: list[str]
    environment: dict[str, str]


@dataclass(slots=True)
class Post:
    """A place where one process after the other runs. `ended` says that none is to follow."""

    name: str
    role: Role
    child: Child | None = None
    started: int = 0
    ready: bool = False
    frozen: bool = False
    stopping_since: float | None = None
    ended: bool = False

    @property
    def current(self) -> str:
        """The name of the process that runs there, or ran there last."""
        return f"{self.name}.{self.started}"

    @property
    def running(self) -> bool:
        return self.child is not None and self.child.running

    @property
    def free(self) -> bool:
        """Whether something may happen to it."""
        return self.ready and self.running and not self.frozen and self.stopping_since is None


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted, in seconds since 1970."""

    what: str
    since: float
    until: float


class Posts:
    """All posts. `look` has to be called often: it notices what has ended and starts it anew.

    `faults` are processes that ended as none should, `struck` those that were killed or stopped,
    and `happened` counts. `log` keeps a line about each of it.
    """

    def __init__(
        self,
        directory: Path,
        program: Callable[[Role, str, float], Program],
        later: Later,
        rng: Random,
        log: Callable[[str], None],
    ) -> None:
        self.all: list[Post] = []
        self.faults: list[str] = []
        self.struck: list[Span] = []
        self.happened: Counter[str] = Counter()
        self.kills = 0
        self._directory = directory
        self._program = program
        self._later = later
        self._rng = rng
        self._log = log
        self._processes = Processes(directory)
        self._started: list[tuple[int, float, str]] = []

    def add(self, role: Role, count: int) -> None:
        """Have so many more posts of a role."""
        self.all += [Post(f"{role[0]}{number}", role) for number in range(count)]

    def of(self, role: Role) -> list[Post]:
        return [post for post in self.all if post.role is role]

    def name_at(self, pid: int, at: float) -> str | None:
        """Return the process that had an id at a time, in seconds since 1970; ids recur."""
        names = [name for own, since, name in self._started if own == pid and since <= at]
        return names[-1] if names else None

    def written(self) -> str:
        """Return what all processes wrote, one after the other."""
        paths = sorted(self._directory.glob("child-*.log"))
        return "\n".join(path.read_text(errors="replace") for path in paths)

    def close(self) -> None:
        self._processes.kill_all()

    def start(self, post: Post) -> None:
        """Start a process, unless one runs or none is to."""
        if post.ended or post.running:
            return
        post.started += 1
        post.ready = post.frozen = False
        post.stopping_since = None
        self.order_file(post).unlink(missing_ok=True)
        skew = 0.0 if post.role is Role.GATEWAY else clock_error(self._rng)
        self.happened["processes whose clock was wrong by an hour"] += skew != 0
        program = self._program(post.role, post.current, skew)
        if post.child is not None:
            post.child.kill()  # What was left of it, and its watchdog.
        post.child = self._processes.python(*program.words, env=program.environment)
        self._started.append((post.child.pid, time.time(), post.current))
        self._log(f"{post.current} started, {post.child.log.name}, clock {skew:+}")

    def look(self) -> None:
        """Notice what has ended, and what is ready."""
        for post in self.all:
            if post.child is None:
                continue
            if post.running:
                self._look_at_running(post, post.child)
            else:
                self._look_at_ended(post, post.child)

    def kill(self, post: Post | None) -> None:
        """End a process with SIGKILL."""
        if post is not None and post.child is not None and post.running:
            post.child.send(signal.SIGKILL)
            post.ready = False

    def stop(self, post: Post | None) -> None:
        """Ask a process to stop, as an operator does."""
        if post is not None and post.child is not None:
            post.stopping_since = time.monotonic()
            post.child.terminate()
            self._log(f"{post.current} asked to stop")

    def roll(self, rest: list[Post]) -> None:
        """Stop one process, and the next when another has taken its post."""
        if not rest:
            return
        post, before = rest[0], rest[0].started
        if not post.free:
            self._later.after(0.1, lambda: self.roll(rest))
            return
        self.stop(post)

        def go_on() -> None:
            if post.started > before and post.ready:
                self.roll(rest[1:])
            else:
                self._later.after(0.1, go_on)

        self._later.after(0.1, go_on)

    def freeze(self, post: Post | None, seconds: float) -> None:
        """Stop a process with SIGSTOP for a while."""
        if post is not None and post.child is not None:
            post.child.send(signal.SIGSTOP)
            self._thaw_later(post, seconds)

    def doom(self, post: Post | None, signal_: signal.Signals, point: str, seconds: float) -> None:
        """Let a worker get SIGKILL or SIGSTOP at a step of a job, or wherever it is after a while;
        `seconds` is how long it sleeps."""
        if post is None:
            return
        order, name = self.order_file(post), post.current
        order.write_text(f"{signal_.name} {point}")
        until = time.monotonic() + _DOOM_SECONDS

        def look() -> None:
            if post.current != name or not post.running:
                return
            late = order.exists()
            if late and time.monotonic() < until:
                self._later.after(0.05, look)
                return
            order.unlink(missing_ok=True)
            if signal_ is signal.SIGSTOP:
                self.freeze(post, seconds)
            elif late:
                self.kill(post)

        look()

    def order_file(self, post: Post) -> Path:
        """Return where a worker finds what is to happen to it (`tests.chaos.doom`)."""
        return self._directory / f"{post.name}.doom"

    def _thaw_later(self, post: Post, seconds: float) -> None:
        post.frozen = True
        name, since = post.current, time.time()
        self.happened["workers stopped past their lease"] += 1
        self._log(f"{name} stopped for {seconds:.1f} s")

        def thaw() -> None:
            self.struck.append(Span(name, since, time.time()))
            if post.current == name and post.child is not None:
                post.child.send(signal.SIGCONT)
                post.frozen = False
            self._log(f"{name} goes on")

        self._later.after(seconds, thaw)

    def _look_at_running(self, post: Post, child: Child) -> None:
        if not post.ready:
            post.ready = post.role is not Role.WORKER or "READY" in child.output
        stopping = post.stopping_since
        if stopping is not None and time.monotonic() - stopping > STOP_SECONDS:
            self.faults.append(f"{post.current} did not stop:\n{_tail(child)}")
            self.kill(post)

    def _look_at_ended(self, post: Post, child: Child) -> None:
        code = child.wait()
        child.kill()
        post.child = None
        self._log(f"{post.current} ended with {code}")
        if code == -signal.SIGKILL:
            self.struck.append(Span(post.current, time.time(), time.time()))
            self.kills += post.role is Role.WORKER
        elif code == 0 and post.role is Role.GATEWAY:
            post.ended = True
        elif code == 0 and post.stopping_since is not None:
            self.happened[f"{post.role.value}s stopped with SIGTERM"] += 1
        elif not post.ready and "DatabaseUnavailable" in child.output:
            # It says so and ends; its supervisor starts it again.
            self.happened["starts that met a database that was away"] += 1
        else:
            self.faults.append(f"{post.current} ended by itself ({code}):\n{_tail(child)}")
            post.ended = True
        self._later.after(self._rng.uniform(0.0, 1.0), lambda: self.start(post))


def _tail(child: Child) -> str:
    return "\n".join(child.output.splitlines()[-_TAIL_LINES:])
