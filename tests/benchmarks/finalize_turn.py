"""What a gateway waits for at the end of a turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count

import redis
from celery import Celery

from producers import Gateway, Session
from tasks.names import FINALIZE, TURNS
from tasks.settings import celery_settings
from tests.benchmarks.figure import Figure
from tests.benchmarks.handwritten import (
    HandWritten,
    Values,
    hand_written,
    row_values,
    turn_values,
)
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import DATABASES, Stage
from tests.benchmarks.summariser import InstantSummariser
from tests.benchmarks.timing import Measured, by_turns, milliseconds
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, playing
from workers.settings import Settings

MOST_RATIO = 1.2
_NOTIFY_SECONDS = 5.0


def finalized_turns(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """`finalize_turn` of four messages against the same statements and one publish by hand."""
    for database in DATABASES:
        with stage.database(database) as url, _counter(url, stage.redis_url, database) as counter:
            (compared,) = by_turns(
                counter.ours(), counter.by_hand(), rounds=scale.rounds, warm_up=scale.warm_up
            )
        yield Figure(
            "finalize_turn / written by hand, with one publish",
            database,
            compared.ratio,
            "x",
            MOST_RATIO,
            str(compared),
        )


@dataclass(frozen=True, slots=True)
class _Counter:
    """Two sessions on one database, of which one is served by us and the other by hand."""

    play: Play
    gateway: Gateway
    hand: HandWritten
    app: Celery
    broker: redis.Redis
    numbers: Iterator[int]

    def ours(self) -> Measured:
        session = self.gateway.open_session("ours")

        def measured() -> tuple[float]:
            messages = turn(next(self.numbers))
            took = milliseconds(lambda: self.gateway.finalize_turn(session, messages))
            self._settle()
            return (took,)

        return measured

    def by_hand(self) -> Measured:
        session = self.gateway.open_session("by hand")

        def measured() -> tuple[float]:
            messages = turn(next(self.numbers))
            values, rows = turn_values(messages), [row_values(message) for message in messages]
            took = milliseconds(lambda: self._store_and_publish(session, values, rows))
            self._settle()
            return (took,)

        return measured

    def _store_and_publish(self, session: Session, values: Values, rows: list[Values]) -> None:
        job = self.hand.store(session.key, values, rows)
        self.app.send_task(
            FINALIZE,
            kwargs={"job_id": job, "session": session.key, "trigger": "turn"},
            queue=TURNS,
            ignore_result=True,
        )

    def _settle(self) -> None:
        """Wait for the notification and work the job, so that the next turn makes a new one."""
        deadline = time.monotonic() + _NOTIFY_SECONDS
        while not self.broker.llen(TURNS):
            assert time.monotonic() < deadline, "nobody rang"
            time.sleep(0.001)
        self.broker.delete(TURNS)
        self.play.work_off()


@contextmanager
def _counter(url: str, redis_url: str, database: str) -> Iterator[_Counter]:
    with ExitStack() as opened:
        # Worker, gateway and hand have connections of their own, as they have in production.
        play = opened.enter_context(
            playing(url, summariser=InstantSummariser(), micro_compact=False)
        )
        gateway = opened.enter_context(Gateway(Settings(database_url=url, broker_url=redis_url)))
        hand = opened.enter_context(closing(hand_written(database, url)))
        app = opened.enter_context(closing(Celery("by-hand", set_as_current=False)))
        app.conf.update(celery_settings(redis_url, notify_only=True))
        broker = opened.enter_context(redis.Redis.from_url(redis_url))
        broker.delete(TURNS)
        yield _Counter(play, gateway, hand, app, broker, count())
