"""A session whose turns are decided about one at a time."""

from __future__ import annotations

from typing import Any

from producers import Gateway, Session
from storage import guards, signals
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.guards import GuardName
from storage.jobs import JobKind
from storage.signals import Signal
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, Turn
from workers.policy.calibration import Calibration

SMALL: dict[str, Any] = {"protect_last_n": 4, "threshold_tokens": 2_000}
"""Settings under which twelve turns of the airline desk leave something to absorb."""


class Case:
    """A session on a window of 200,000 tokens, whose threshold is 150,000 unless set."""

    def __init__(self, play: Play, **facts: Any) -> None:
        self.play = play
        self.gateway: Gateway = play.gateway
        self.session: Session = play.gateway.open_session(
            "s", **{"context_window": 200_000, "model": "m", **facts}
        )
        self.turns = 0

    def say(self, turns: int = 1, **usage: Any) -> None:
        """Finish turns; the last one with a report."""
        for number in range(turns):
            last = number == turns - 1
            report = usage if usage and last else None
            self.play.say(self.session, Turn(turn(self.turns), []), usage=report)
            self.turns += 1

    def decide(self) -> dict[str, str]:
        """Work the turn's job; return what is open in the session: kinds and triggers."""
        worked = self.play.work_one()
        assert worked is not None
        assert worked.kind is JobKind.TURN
        return self.open()

    def open(self) -> dict[str, str]:
        return dict(
            self.play.rows("SELECT kind, trigger FROM jobs WHERE state IN ('due', 'running')")
        )

    def record(self) -> SessionRecord:
        with self.play.database.read() as connection:
            return sessions.fetch(connection, self.session.key)

    def calibration(self) -> Calibration:
        return Calibration.of(self.record().calibration)

    def put(self, name: GuardName, **facts: Any) -> None:
        with self.play.database.write() as connection:
            guards.put(connection, self.play.database, self.session.key, name, **facts)

    def clear(self, *names: GuardName) -> None:
        with self.play.database.write() as connection:
            guards.clear(connection, self.session.key, *names)

    def signals(self) -> list[Signal]:
        with self.play.database.read() as connection:
            return signals.read(connection, owner="local")
