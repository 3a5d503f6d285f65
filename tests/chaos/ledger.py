"""The model of a chaos run, and a ledger of what it answered to whom."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.chaos.script import session_in
from tests.support.model.behaviours import Behaviour, Cut, Empty, Reset, Status, stream_text
from tests.support.model.turn import GoneError, Turn

_DATE = re.compile(r"Today's date is [0-9-]+")


class End(StrEnum):
    """How an answer ended."""

    PAID = "paid"
    """A good answer went out whole."""
    BAD = "bad"
    GIVEN_UP = "given up"
    """The process that had asked went away."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: who asked (a worker's name), about which session, and when, in seconds since
    1970. `question` is the same for the same question."""

    question: str
    session: str | None
    asker: str
    arrived: float
    ended: float
    end: End


class Ledger:
    """A behaviour of the model server: good, within `slowest` seconds, unless it is made
    to fail or to take longer."""

    def __init__(self, rng: Random, slowest: float) -> None:
        self._rng = rng
        self._lock = threading.Lock()
        self._asked: list[Asked] = []
        self._failing = False
        self._slowest = slowest

    @property
    def asked(self) -> list[Asked]:
        """Every request that has ended, in the order of their ends."""
        with self._lock:
            return list(self._asked)

    def counts(self) -> Counter[End]:
        return Counter(one.end for one in self.asked)

    def fail(self, failing: bool) -> None:
        """Fail from now on, in one way or another, or be well again."""
        self._failing = failing

    def take_up_to(self, seconds: float) -> None:
        """Think so long before an answer, at most."""
        self._slowest = seconds

    def play(self, turn: Turn) -> None:
        """Answer a request, and note how that ended."""
        arrived = time.time()
        with self._lock:
            thinks = self._rng.uniform(0, self._slowest)
            bad = self._rng.choice(_FAILURES) if self._failing else None
        end = End.GIVEN_UP
        try:
            if not turn.pause(thinks):
                return
            if bad is None:
                stream_text(turn, turn.good_answer())
                end = End.PAID
            else:
                bad.play(turn)
                end = End.BAD
        except (ConnectionError, GoneError):
            # One that broke off by itself was not given up.
            end = End.GIVEN_UP if bad is None else End.BAD
            raise
        finally:
            self._note(turn, arrived, end)

    def _note(self, turn: Turn, arrived: float, end: End) -> None:
        messages = json.dumps(turn.request["messages"], ensure_ascii=False)
        asked = Asked(
            question=hashlib.sha256(_DATE.sub("", messages).encode()).hexdigest(),
            session=session_in(messages),
            asker=turn.headers.get("authorization", "").removeprefix("Bearer "),
            arrived=arrived,
            ended=time.time(),
            end=end,
        )
        with self._lock:
            self._asked.append(asked)


_FAILURES: tuple[Behaviour, ...] = (
    Status(500),
    Status(503, retry_after="1"),
    Status(429, retry_after="2"),
    Empty(),
    Reset(),
    Reset(chunks=1),
    Cut(),
)
