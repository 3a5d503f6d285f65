"""A whole chaos run: say, strike, calm down, wait, recount."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.chaos.due import count_notifications_as_lost, due_or_running, move_times_back
from tests.chaos.form import Form
from tests.chaos.gateways import Note
from tests.chaos.monkey import Act, Move, moves
from tests.chaos.programs import sessions_of, turns_of
from tests.chaos.script import Saying, in_one, owner_of, saying, sayings, session_ids
from tests.chaos.stage import Stage
from tests.chaos.tally import Tally
from tests.chaos.verdict import Verdict
from tests.support.servers.servers import PostgresServer, RedisServer
from tests.support.sessions.gateways import gateway_on, rows_of

_NO_PROGRESS_SECONDS = 10.0
"""After which the monkey goes on though no turn was said, since its last act keeps gateways up."""

_LATER_MS = 1_200_000
_MOST_ROUNDS = 12

Report = Callable[[str], None]


def run(
    form: Form,
    directory: Path,
    *,
    redis: RedisServer | None = None,
    postgres: PostgresServer | None = None,
    report: Report = lambda _: None,
) -> Tally:
    """Play a run on servers of its own and return its tally; `report` gets its progress."""
    stage = Stage(form, directory, redis, postgres)
    try:
        return _Run(form, stage, report).play()
    finally:
        stage.close()


class _Run:
    def __init__(self, form: Form, stage: Stage, report: Report) -> None:
        self._form = form
        self._stage = stage
        self._report = report
        self._unfinished: list[str] = []
        self._said = _said(form)

    def play(self) -> Tally:
        begun = time.monotonic()
        self._stage.start()
        self._strike()
        self._stage.calm()
        calm = time.monotonic()
        self._wait(lambda: self._stage.all_said, "the gateways say their last turns")
        self._wait_until_quiet("all that is due is done")
        quiet = time.monotonic()
        if not self._stage.posts.faults:
            self._let_time_pass()
            self._go_on_after_dead_jobs()
            self._stage.stop_workers()
        return Verdict(self._form, self._stage, self._said, self._unfinished).tally(
            {"struck for": calm - begun, "all done after": quiet - calm}
        )

    def _strike(self) -> None:
        form, stage = self._form, self._stage
        rng = Random(f"{form.seed} monkey")
        plan = moves(
            rng,
            kills=form.kills,
            workers=form.workers,
            lease_seconds=form.lease_seconds,
            unable=stage.unable,
        )
        extra = iter([Move(Act.KILL, "", 0.0, rng.random()) for _ in range(form.kills)])
        for number, move in enumerate(plan):
            if stage.posts.faults:
                return
            self._await_turns(form.turns * number // (len(plan) + 1))
            stage.perform(move)
            if number % 20 == 0:
                self._report(
                    f"{stage.noted(Note.SAID)} turns, {stage.posts.kills} kills, {number} acts"
                )
        # Some were to kill a worker that was down already.
        while stage.posts.kills < form.kills and (more := next(extra, None)) is not None:
            wanted = stage.posts.kills + 1
            stage.perform(more)
            self._pass_time(partial(self._has_killed, wanted), 5.0)

    def _has_killed(self, workers: int) -> bool:
        return self._stage.posts.kills >= workers

    def _await_turns(self, turns: int) -> None:
        said, since = self._stage.noted(Note.SAID), time.monotonic()
        while (
            said < turns
            and not self._stage.posts.faults
            and time.monotonic() - since < _NO_PROGRESS_SECONDS
        ):
            self._stage.tick()
            now = self._stage.noted(Note.SAID)
            if now > said:
                said, since = now, time.monotonic()
        self._stage.tick()

    def _wait(self, true: Callable[[], bool], what: str) -> None:
        self._report(f"waiting until {what}")
        if not self._pass_time(true, self._form.bound):
            self._unfinished.append(f"not within {self._form.bound:.0f} s: {what}")

    def _pass_time(self, true: Callable[[], bool], seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not true():
            if time.monotonic() > until or self._stage.posts.faults:
                return False
            self._stage.tick()
        return True

    def _wait_until_quiet(self, what: str) -> None:
        form, database = self._form, self._stage.database
        hurried = time.monotonic()

        def quiet() -> bool:
            nonlocal hurried
            if form.hurried and time.monotonic() - hurried > 2.0:
                hurried = time.monotonic()
                count_notifications_as_lost(database)
            return not due_or_running(database)

        self._wait(quiet, what)

    def _let_time_pass(self) -> None:
        """Let what waits for its time have it, until nothing waits any more."""
        for _ in range(_MOST_ROUNDS):
            if not rows_of(self._stage.database, "SELECT id FROM jobs WHERE state = 'due'"):
                return
            move_times_back(self._stage.database, _LATER_MS)
            self._wait_until_quiet("what waited for its time is done")

    def _go_on_after_dead_jobs(self) -> None:
        """Say one more turn where a job died: the session goes on with it."""
        database = self._stage.database
        found = rows_of(
            database,
            'SELECT DISTINCT id FROM sessions WHERE "key" IN '
            "(SELECT session_key FROM jobs WHERE state = 'dead')",
        )
        for (name,) in found:
            with gateway_on(self._stage.url, owner=owner_of(name)) as gateway:
                turn = in_one(saying(self._form.seed, name, len(self._said[name])))
                (part,) = turn.parts
                gateway.finalize_turn(name, part.messages, event_id=part.event_id)
                self._said[name].append(turn)
        self._wait_until_quiet("sessions with dead jobs go on")
        self._let_time_pass()


def _said(form: Form) -> dict[str, list[Saying]]:
    """Return what was said in each session, in order."""
    said: dict[str, list[Saying]] = {name: [] for name in session_ids(form.sessions)}
    for gateway in range(form.gateways):
        for turn in sayings(form.seed, sessions_of(form, gateway), turns_of(form, gateway)):
            said[turn.session].append(turn)
    return said


def report_on_stderr(text: str) -> None:
    """Say how far a run is."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()
