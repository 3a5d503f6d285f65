"""A gateway of a chaos run in a process of its own, and the journal that it keeps.

    python -m tests.chaos.gateways --seed 7 --sessions s00,s01 --turns 500 --journal FILE

Says the turns of `tests.chaos.script`, goes on after the last one in its journal, and ends with
status 0 when all are said. It repeats a call until the database has taken it, and now and then
one that it took: with the same event id, afterwards or at the same time from another thread.
Anything that a gateway must not meet ends it with status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TypeVar

from producers import DatabaseUnavailable, Gateway, Receipt, Session
from tests.chaos.script import Part, Saying, owner_of, sayings
from tests.support.model.validity import check_openai

WINDOW = 128_000

_AGAIN_SECONDS = 0.1
_TWICE = 0.08
_LATER_AGAIN = 0.08
_LOOKS = 0.15
_REPORTS = 0.3

Result = TypeVar("Result")


class Note(StrEnum):
    BEGUN = "begun"
    """A turn is about to be said."""
    SAID = "said"
    """A turn was said to its end."""
    REPEATED = "repeated"
    """A call was made again and changed nothing."""
    WAITED = "waited"
    """The database failed a call."""


@dataclass(frozen=True, slots=True)
class Journal:
    """What a gateway has done, a line each, so that the next process goes on from there."""

    path: Path

    def write(self, note: Note, turn: int) -> None:
        """Add a line; it outlives a kill of the process."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, f"{json.dumps([note, turn])}\n".encode())
        finally:
            os.close(descriptor)

    def count(self, note: Note) -> int:
        """Return how many such lines there are."""
        return self.path.read_text().count(f'"{note}"') if self.path.exists() else 0

    @property
    def next_turn(self) -> int:
        """Number of the turn to go on with: the one that was begun and is not known as said."""
        said = [turn for note, turn in self._lines() if note is Note.SAID]
        return said[-1] + 1 if said else 0

    def _lines(self) -> Iterator[tuple[Note, int]]:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                note, turn = json.loads(line)
                yield Note(note), turn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--sessions", type=lambda text: text.split(","), required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--pace", type=float, default=0.0, help="mean seconds between two turns")
    parser.add_argument("--journal", type=Path, required=True)
    options = parser.parse_args()
    journal = Journal(options.journal)
    first = journal.next_turn
    rng = Random(f"{options.seed} {options.sessions} from {first}")
    patient = _Patient(journal)
    opened = patient.until_taken(Gateway, first)
    with opened as gateway, ThreadPoolExecutor(1) as other:
        speaker = _Speaker(gateway, patient, rng, other)
        plan = list(sayings(options.seed, options.sessions, options.turns))
        for number, saying in enumerate(plan[first:], start=first):
            journal.write(Note.BEGUN, number)
            speaker.say(number, saying)
            journal.write(Note.SAID, number)
            if options.pace:
                time.sleep(rng.expovariate(1 / options.pace))
    sys.stdout.write("DONE\n")


@dataclass(frozen=True, slots=True)
class _Patient:
    journal: Journal

    def until_taken(self, call: Callable[[], Result], turn: int) -> Result:
        """Repeat a call while the database is away, as its error asks for."""
        while True:
            try:
                return call()
            except DatabaseUnavailable:
                self.journal.write(Note.WAITED, turn)
                time.sleep(_AGAIN_SECONDS)


class _Speaker:
    def __init__(
        self, gateway: Gateway, patient: _Patient, rng: Random, other: ThreadPoolExecutor
    ) -> None:
        self._gateway = gateway
        self._patient = patient
        self._rng = rng
        self._other = other
        self._sessions: dict[str, Session] = {}
        self._taken: list[tuple[Session, Part, Receipt]] = []

    def say(self, turn: int, saying: Saying) -> None:
        session = self._open(turn, saying.session)
        for part in saying.parts:
            receipt = self._append(turn, session, part)
            self._taken.append((session, part, receipt))
        if self._rng.random() < _LATER_AGAIN:
            self._append_again(turn, *self._rng.choice(self._taken))
        if self._rng.random() < _LOOKS:
            self._look(turn, session, saying)

    def _open(self, turn: int, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = self._patient.until_taken(
                lambda: self._gateway.open_session(
                    name, owner=owner_of(name), context_window=WINDOW
                ),
                turn,
            )
        return self._sessions[name]

    def _append(self, turn: int, session: Session, part: Part) -> Receipt:
        usage = self._usage(turn, session) if part.closes_turn else None

        def call() -> Receipt:
            return self._gateway.append(
                session,
                part.messages,
                turn_open=not part.closes_turn,
                event_id=part.event_id,
                usage=usage,
            )

        if self._rng.random() >= _TWICE:
            return self._patient.until_taken(call, turn)
        twin = self._other.submit(self._patient.until_taken, call, turn)
        receipts = [self._patient.until_taken(call, turn), twin.result()]
        places = {(one.turn, one.first_position) for one in receipts}
        assert len(places) == 1, f"an event sent twice at once was stored twice: {receipts}"
        self._patient.journal.write(Note.REPEATED, turn)
        return receipts[0]

    def _append_again(self, turn: int, session: Session, part: Part, before: Receipt) -> None:
        receipt = self._patient.until_taken(
            lambda: self._gateway.append(
                session, part.messages, turn_open=not part.closes_turn, event_id=part.event_id
            ),
            turn,
        )
        assert receipt.repeated, f"an event sent again was stored again: {receipt}"
        assert receipt.first_position == before.first_position
        self._patient.journal.write(Note.REPEATED, turn)

    def _usage(self, turn: int, session: Session) -> dict[str, int] | None:
        """Return what a provider would have counted for the last request, if it is reported."""
        if self._rng.random() >= _REPORTS:
            return None
        context = self._patient.until_taken(lambda: self._gateway.load_context(session), turn)
        return {"prompt_tokens": context.tokens + 300, "revision": context.revision}

    def _look(self, turn: int, session: Session, saying: Saying) -> None:
        """Check that what a model would be sent next is valid, and ends with the last message."""
        context = self._patient.until_taken(lambda: self._gateway.load_context(session), turn)
        check_openai(context.messages)
        assert dict(context.messages[-1]) == saying.messages[-1], "the newest message is not shown"
        self._patient.until_taken(lambda: self._gateway.preflight(session), turn)


if __name__ == "__main__":
    main()
