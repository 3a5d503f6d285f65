"""Two worker processes on a real broker, and a gateway that gives them work."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from celery import Celery

from producers import Gateway, Session
from tasks.names import TURNS
from tasks.settings import celery_settings
from tests.benchmarks.disk import tidy
from tests.benchmarks.instant_worker import NOTHING
from tests.benchmarks.real_talk import Said
from tests.benchmarks.stage import Stage
from tests.benchmarks.summariser import InstantSummariser
from tests.support.programs.processes import Child, Processes
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, playing
from workers.settings import Settings

WORKERS, THREADS = 2, 8
_SECONDS = 120.0
_LOOK_SECONDS = 0.02
"""Looking takes time from the workers, so not more often than a run's length needs."""
_OPEN = "SELECT count(*) FROM jobs WHERE state IN ('due', 'running')"


@dataclass(slots=True)
class Crew:
    """Workers that stand still until a queue is filled, so that nobody is measured who fills it.

    `play` works jobs in this process; what it does is never measured.
    """

    play: Play
    gateway: Gateway
    app: Celery
    broker: redis.Redis
    workers: list[Child]
    turns: int = 0

    def open_sessions(
        self, number: int, *, context_window: int, turns: int, words: int
    ) -> list[Session]:
        """Open sessions of `turns` made-up turns, every second one of one more, and compact
        them."""
        made = (
            [turn(at, words=words) for at in range(turns + place % 2)] for place in range(number)
        )
        return self.open_with(made, context_window=context_window)

    def open_with(self, pasts: Iterable[Sequence[Said]], *, context_window: int) -> list[Session]:
        """Open a session for each past, a sequence of turns, and compact them."""
        sessions = []
        for past in pasts:
            session = self.play.gateway.open_session(context_window=context_window)
            self.play.gateway.finalize_turn(session, [message for one in past for message in one])
            sessions.append(session)
        self.play.work_off()
        tidy(self.play.database)
        return sessions

    def do_nothing(self, times: int) -> float:
        """Run so many tasks that do nothing; return the seconds they took."""

        def fill() -> None:
            for number in range(times):
                self.app.send_task(
                    NOTHING,
                    kwargs={"job_id": number, "session": "s", "trigger": "turn"},
                    queue=TURNS,
                    ignore_result=True,
                )

        return self._timed(fill, times, lambda: not self.broker.llen(TURNS))

    def work_turns(self, sessions: Sequence[Session], words: int, *, each: int = 1) -> float:
        """Finish `each` made-up turns in every session and work all that is due then, as `work`
        does."""
        return self.work(
            [(session, self._made(words)) for _ in range(each) for session in sessions]
        )

    def work(self, turns: Sequence[tuple[Session, Said]]) -> float:
        """Finish turns and work all that is due then; return the seconds that the work took, from
        the first notification taken to the last commit, with no notification of a turn left."""

        def fill() -> None:
            for session, said in turns:
                self.gateway.finalize_turn(session, said)

        notifications = len({session.key for session, _ in turns})
        # Looking into the broker takes the least from the workers.
        return self._timed(
            fill, notifications, lambda: not self.broker.llen(TURNS) and not self.count(_OPEN)
        )

    def finish_turn(self, session: Session, words: int) -> None:
        """Finish a made-up turn, as a gateway does."""
        self.gateway.finalize_turn(session, self._made(words))

    def _made(self, words: int) -> Said:
        self.turns += 1
        return turn(1000 + self.turns, words=words)

    def count(self, query: str) -> int:
        """Return the number that a plain SQL query gives."""
        [(number,)] = self.play.rows(query)
        return int(number)

    def _timed(self, fill: Callable[[], None], messages: int, done: Callable[[], bool]) -> float:
        self._send(signal.SIGSTOP)
        fill()
        # Each stopped worker was given one message, for which it had been waiting.
        _wait(lambda: self.broker.llen(TURNS) >= messages - WORKERS, "every message is queued")
        started = time.perf_counter()
        self._send(signal.SIGCONT)
        _wait(done, "all is worked")
        return time.perf_counter() - started

    def _send(self, signal_: signal.Signals) -> None:
        for worker in self.workers:
            worker.send(signal_)


def _wait(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not true():
        assert time.monotonic() < deadline, f"not within {_SECONDS:g} s: {what}"
        time.sleep(_LOOK_SECONDS)


@contextmanager
def crew(stage: Stage, url: str) -> Iterator[Crew]:
    """Yield a crew on the empty database `url`."""
    with ExitStack() as opened:
        broker = opened.enter_context(redis.Redis.from_url(stage.redis_url))
        broker.flushdb()
        play = opened.enter_context(playing(url, summariser=InstantSummariser()))
        settings = Settings(database_url=url, broker_url=stage.redis_url)
        gateway = opened.enter_context(Gateway(settings))
        app = opened.enter_context(closing(Celery("nothing", set_as_current=False)))
        app.conf.update(celery_settings(stage.redis_url))
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="afterturn-crew-")))
        processes = Processes(folder)
        opened.callback(processes.kill_all)
        environment = {
            "DATABASE_URL": url,
            "BROKER_URL": stage.redis_url,
            "AFTERTURN_CONFIG": str(folder / "none.yaml"),
        }
        (folder / "none.yaml").touch()
        program = ("-m", "tests.benchmarks.instant_worker", "--concurrency", str(THREADS))
        workers = [
            processes.python(*program, "--name", f"w{place}", env=environment)
            for place in range(WORKERS)
        ]
        for worker in workers:
            worker.wait_for("READY")
        yield Crew(play, gateway, app, broker, workers)
