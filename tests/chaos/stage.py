"""Servers and processes of a chaos run, and what may happen to them."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

from storage import migrate
from storage.engine import Database, open_database
from storage.errors import StorageError
from storage.jobs import queue_states
from tasks.names import BATCH, MICRO, TURNS
from tests.chaos.diary import begin_diary
from tests.chaos.form import Form, Kind
from tests.chaos.gateways import Journal, Note
from tests.chaos.later import Later
from tests.chaos.ledger import End, Ledger
from tests.chaos.monkey import OF_POSTGRESQL, OF_REDIS, Act, Move
from tests.chaos.notifications import invent_notifications, shuffle_notifications
from tests.chaos.posts import STOP_SECONDS, Post, Posts, Role, Span
from tests.chaos.programs import Programs
from tests.support.model.server import ModelServer
from tests.support.servers.servers import PostgresServer, RedisServer

_USUAL_SECONDS = 1.0
"""The longest that the model thinks when it is well."""

_WAKING_SECONDS = 4.0
"""The longest that it thinks while a worker sleeps, so that the worker wakes while another one
waits for the answer to the same question."""

_FREE_SECONDS = 15.0
_PAUSED = (TURNS, MICRO, BATCH)


class Stage:
    """Everything that takes part in a run.

    `tick` has to be called often: it starts what has ended anew and ends what lasts a while.
    `paused` are queues and `outages` the database, while they were so.
    """

    def __init__(
        self,
        form: Form,
        directory: Path,
        redis: RedisServer | None,
        postgres: PostgresServer | None,
    ) -> None:
        self.paused: list[Span] = []
        self.outages: list[Span] = []
        self._form = form
        self._rng = Random(f"{form.seed} stage")
        self._directory = directory
        self._redis = redis
        self._postgres = postgres
        self._performed: Counter[str] = Counter()
        self._model = ModelServer()
        self.ledger = Ledger(Random(f"{form.seed} model"), _USUAL_SECONDS)
        self._model.always(self.ledger)
        self.url = postgres.url if postgres else f"sqlite:///{directory / 'chaos.db'}"
        self.database: Database = open_database(self.url)
        self._programs = Programs(form, directory, self.url, redis.url if redis else None)
        self._programs.configure(self._model.base_url)
        self._later = Later()
        self.posts = Posts(directory, self._programs, self._later, self._rng, self._log)

    @property
    def unable(self) -> frozenset[Act]:
        """What cannot happen here."""
        in_a_hurry = {Act.HANG_REDIS_LONG} if self._form.hurried else set()
        without_redis = OF_REDIS if self._redis is None else frozenset()
        without_postgresql = OF_POSTGRESQL if self._postgres is None else frozenset()
        return without_redis | without_postgresql | in_a_hurry

    @property
    def happened(self) -> Mapping[str, int]:
        """What has happened so far, and how often."""
        return self._performed + self.posts.happened

    @property
    def all_said(self) -> bool:
        """Whether every gateway has come to its end."""
        return all(post.ended for post in self.posts.of(Role.GATEWAY))

    def noted(self, note: Note) -> int:
        """Return how many lines of a kind the gateways' journals have."""
        gateways = range(self._form.gateways)
        return sum(Journal(self._programs.journal(number)).count(note) for number in gateways)

    def start(self) -> None:
        """Make the tables and start every process."""
        migrate.upgrade(self.database)
        begin_diary(self.database)
        self.posts.add(Role.WORKER, self._form.workers)
        self.posts.add(Role.BEAT, 2 if self._form.kind is Kind.POSTGRESQL else 0)
        self.posts.add(Role.GATEWAY, self._form.gateways)
        for post in self.posts.all:
            self.posts.start(post)

    def close(self) -> None:
        """End everything."""
        self.posts.close()
        self._model.close()
        self.database.close()

    def tick(self) -> None:
        """See after everything, and wait a moment."""
        self._later.do_due()
        self.posts.look()
        time.sleep(0.02)

    def perform(self, move: Move) -> None:
        """Let something happen; what lasts a while is ended by `tick`."""
        posts, later = self.posts, self._later
        self._performed[move.act] += 1
        self._log(f"{move.act.value} ({move.point}, {move.seconds:.1f} s)")
        match move.act:
            case Act.KILL:
                posts.kill(self._one_of(Role.WORKER, move))
            case Act.KILL_AT:
                worker = self._one_of(Role.WORKER, move)
                posts.doom(worker, signal.SIGKILL, move.point, 0.0)
            case Act.KILL_ALL:
                for post in posts.of(Role.WORKER):
                    posts.kill(post)
            case Act.FREEZE:
                self._think_long_for(move.seconds)
                posts.freeze(self._one_of(Role.WORKER, move), move.seconds)
            case Act.FREEZE_AT:
                self._think_long_for(move.seconds)
                worker = self._one_of(Role.WORKER, move)
                posts.doom(worker, signal.SIGSTOP, move.point, move.seconds)
            case Act.RESTART:
                posts.stop(self._one_of(Role.WORKER, move))
            case Act.ROLL:
                posts.roll(posts.of(Role.WORKER))
            case Act.KILL_GATEWAY:
                posts.kill(self._one_of(Role.GATEWAY, move))
            case Act.KILL_BEAT:
                posts.kill(self._one_of(Role.BEAT, move))
            case _ if move.act in OF_REDIS and self._redis is not None:
                self._strike_redis(self._redis, move)
            case _ if move.act in OF_POSTGRESQL and self._postgres is not None:
                self._strike_database(self._postgres, move)
            case Act.PAUSE_QUEUE:
                self._pause(_PAUSED[int(move.pick * len(_PAUSED))], move.seconds)
            case Act.FAIL_MODEL:
                self._fail_model(move.seconds)
            case Act.SLOW_MODEL:
                self.ledger.take_up_to(3 * move.seconds)
                later.after(move.seconds, lambda: self.ledger.take_up_to(_USUAL_SECONDS))

    def calm(self) -> None:
        """End everything that lasts, and let all that should run do so."""
        self._later.do_all()
        for post in self.posts.of(Role.WORKER):
            self.posts.order_file(post).unlink(missing_ok=True)
        self.ledger.fail(False)
        self.ledger.take_up_to(_USUAL_SECONDS)
        with self.database.write() as connection:
            queue_states.resume(connection, _PAUSED)
        for post in self.posts.all:
            self.posts.start(post)

    def stop_workers(self) -> None:
        """Stop workers and beats as an operator would, and wait for them."""
        workers = self.posts.of(Role.WORKER)
        until = time.monotonic() + STOP_SECONDS
        while not all(post.ready for post in workers) and time.monotonic() < until:
            self.tick()
        for post in (*workers, *self.posts.of(Role.BEAT)):
            post.ended = True
            self.posts.stop(post)
        until += STOP_SECONDS
        while any(post.running for post in workers) and time.monotonic() < until:
            self.tick()

    def _log(self, line: str) -> None:
        """Keep a line about what happened, for who looks into a run that went wrong."""
        with (self._directory / "stage.log").open("a") as log:
            log.write(f"{time.time():.3f} {line}\n")

    def _one_of(self, role: Role, move: Move) -> Post | None:
        """Return a process to which something may happen, waiting for one a while."""
        until = time.monotonic() + _FREE_SECONDS
        while time.monotonic() < until and not self.posts.faults:
            if free := [post for post in self.posts.of(role) if post.free]:
                return free[int(move.pick * len(free))]
            if role is Role.GATEWAY and self.all_said:
                return None
            self.tick()
        return None

    def _strike_redis(self, server: RedisServer, move: Move) -> None:
        if not server.running:
            return
        match move.act:
            case Act.KILL_REDIS:
                server.kill()
                self._later.after(move.seconds, server.start)
            case Act.HANG_REDIS | Act.HANG_REDIS_LONG:
                server.pause()
                self._later.after(move.seconds, server.resume)
            case Act.SHUFFLE_NOTIFICATIONS:
                shuffle_notifications(server.url, self._rng)
            case _:
                invent_notifications(server.url, self.database, self._rng)

    def _strike_database(self, server: PostgresServer, move: Move) -> None:
        since = time.time()
        if move.act is Act.CRASH_DATABASE:
            server.kill()
        else:
            server.stop()
        time.sleep(move.seconds)
        server.start()
        self.outages.append(Span("database", since, time.time()))

    def _pause(self, queue: str, seconds: float) -> None:
        """Pause a queue as an operator would, and resume it later."""
        try:
            with self.database.write() as connection:
                queue_states.pause(connection, self.database, [queue], reason="chaos")
        except StorageError:
            return
        since = time.time()

        def resume() -> None:
            until = time.time()
            with suppress(StorageError), self.database.write() as connection:
                queue_states.resume(connection, [queue])
            self.paused.append(Span(queue, since, until))

        self._later.after(seconds, resume)

    def _fail_model(self, seconds: float) -> None:
        """Let the model be well again later, once it has failed somebody."""
        self.ledger.fail(True)
        before, most = self.ledger.counts()[End.BAD], time.monotonic() + 10

        def look() -> None:
            if self.ledger.counts()[End.BAD] > before or time.monotonic() > most:
                self.ledger.fail(False)
            else:
                self._later.after(0.1, look)

        self._later.after(seconds, look)

    def _think_long_for(self, seconds: float) -> None:
        self.ledger.take_up_to(_WAKING_SECONDS)
        self._later.after(seconds + 2.0, lambda: self.ledger.take_up_to(_USUAL_SECONDS))
