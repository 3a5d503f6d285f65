"""The sessions of two owners as gateways see them, each act judged on the spot."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from producers import Session
from producers.undoing import RewindError
from storage import jobs
from storage.errors import EventConflict
from storage.jobs import JobKind, job_records
from storage.jobs.job_records import JobRecord
from tests.support.machine.account import Account
from tests.support.machine.invariants import check
from tests.support.machine.state import State, read_state
from tests.support.machine.turns import TAGS, AnyShape, open_calls, result
from tests.support.machine.world import World
from tests.support.sessions.play import Turn
from workers.batch.placeholders import withdraw
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.rendering import Dialect, render

OVERFLOW = {
    "status": 400,
    "code": "context_length_exceeded",
    "message": "This model's maximum context length is 4096 tokens. However, your messages "
    "resulted in 4375 tokens. Please reduce the length of the messages.",
}
TOO_LARGE = {"status": 413, "message": "Request Entity Too Large"}
_BLANK = {"role": "user", "content": "something else"}


class Talks:
    """Sessions of two owners that have the same id and hear the same words but for one."""

    def __init__(self, world: World, *, window: int | None = None) -> None:
        self.world = world
        self.sessions = [self._open(owner, window) for owner in ("one", "other")]
        self.tags = {session.key: tag for session, tag in zip(self.sessions, TAGS, strict=True)}
        self.accounts = {key: Account(self.state(key)) for key in self.tags}
        self._turns = Counter[int]()
        self._count = 0
        self._last: dict[int, tuple[str, Turn]] = {}
        self._checked: dict[int, Any] = {}

    def _open(self, owner: str, window: int | None) -> Session:
        return self.world.gateway.open_session(
            "same", owner=owner, model="m", context_window=window, system_prompt="Be brief."
        )

    def key(self, who: int) -> int:
        return self.sessions[who].key

    def who(self, key: int) -> int:
        return next(who for who, session in enumerate(self.sessions) if session.key == key)

    def state(self, key: int) -> State:
        return read_state(self.world.database, key)

    def say(self, who: int, shape: AnyShape, *, usage: dict[str, int] | None = None) -> None:
        """Store a whole turn."""
        turn = self._next_turn(who, shape)
        self._store(who, turn, closes=True, usage=usage)

    def begin(self, who: int, shape: AnyShape, *, usage: dict[str, int] | None = None) -> None:
        """Store all but the end of a turn."""
        turn = self._next_turn(who, shape)
        part = Turn(turn.messages[:-1], turn.origins[:-1])
        self._store(who, part, closes=False, usage=usage)

    def answer_late(self, who: int) -> None:
        """Store a result of an open call between turns."""
        said = [row for row in self.state(self.key(who)).view if row.message]
        waiting = open_calls([dict(row.message or {}) for row in said])
        tag = TAGS[who]
        message = (
            result(waiting[0], f"{tag}: late.") if waiting else {"role": "user", "content": ""}
        )
        self._store(who, Turn([message], [None]), closes=False)

    def repeat(self, who: int) -> None:
        """Send the last turn again, and something else under its name."""
        if who not in self._last:
            return
        event_id, turn = self._last[who]
        gateway, session = self.world.gateway, self.sessions[who]
        before = self.state(session.key)
        again = gateway.finalize_turn(
            session, turn.messages, origins=turn.origins, event_id=event_id
        )
        assert again.repeated
        with pytest.raises(EventConflict):
            gateway.finalize_turn(session, [*turn.messages, _BLANK], event_id=event_id)
        now = self.state(session.key)
        assert (now.unchanged, now.session, now.jobs) == (
            before.unchanged,
            before.session,
            before.jobs,
        )

    def undo(self, who: int) -> bool:
        key = self.key(who)
        undone = self.world.gateway.undo(self.sessions[who])
        self.accounts[key].undone(undone, self.state(key))
        return undone is not None

    def unprune(self, who: int) -> None:
        """Show old output of tools in full again."""
        key = self.key(who)
        back = self.world.gateway.unprune(self.sessions[who])
        self.accounts[key].unpruned(back, self.state(key))

    def rewind(self, who: int, turns: int, *, by_position: bool = False) -> None:
        """Take back the last turns, or all from a place on; nothing where there are not so many."""
        key = self.key(who)
        said = self.accounts[key].said
        rows = self.state(key).messages
        starts = [row.position for row in rows if row.opens_turn and not said[row.position].gone]
        if len(starts) < turns:
            with pytest.raises(RewindError):
                self.world.gateway.rewind(self.sessions[who], turns=turns)
            self.accounts[key].nothing_happened(self.state(key))
            return
        cut = starts[-turns]
        target = {"to_position": cut} if by_position else {"turns": turns}
        rewound = self.world.gateway.rewind(self.sessions[who], **target)
        self.accounts[key].rewound(rewound, cut, self.state(key))

    def compact(self, who: int, **options: Any) -> None:
        """Compact by request; positions lie within the session."""
        last = len(self.accounts[self.key(who)].said) - 1
        given = {
            name: min(value, last) if name in ("up_to", "around") else value
            for name, value in options.items()
        }
        if last >= 0:
            self.world.gateway.compact(self.sessions[who], **given)

    def withdraw(self, who: int) -> None:
        """Withdraw a requested pass."""
        for job in self.open_jobs(self.key(who)):
            if job.kind is JobKind.BATCH:
                withdraw(self.world.database, self.key(who), job.id)

    def report(self, who: int, error: dict[str, Any]) -> None:
        self.world.gateway.report_error(self.sessions[who], error)
        self._look_again(who)

    def preflight(self, who: int, tokens: int | None = None) -> None:
        self.world.gateway.preflight(self.sessions[who], tokens=tokens)

    def hygiene(self, who: int) -> None:
        self.world.gateway.hygiene(self.sessions[who])

    def request(self, who: int) -> None:
        self.world.gateway.request_compaction(self.sessions[who])

    def trigger(self, who: int, trigger: Trigger) -> None:
        """Enqueue a pass for a trigger."""
        with self.world.database.write() as connection:
            jobs.enqueue(
                connection,
                self.world.database,
                self.key(who),
                kind=JobKind.BATCH,
                queue=BATCH_QUEUE,
                trigger=trigger,
                priority=RULES[trigger].priority,
            )

    def set_model(self, who: int, model: str, window: int | None, reserved: int = 0) -> None:
        self.world.gateway.set_model(
            self.sessions[who], model, context_window=window, reserved_output=reserved
        )
        self._look_again(who)

    def prompts(self) -> list[str]:
        """Return what every model would be sent now."""
        contexts = [
            self.world.gateway.load_context(session, dialect=dialect)
            for session in self.sessions
            for dialect in Dialect
        ]
        return [repr((one.messages, one.system, one.tokens, one.omitted)) for one in contexts]

    def open_jobs(self, key: int | None = None) -> list[JobRecord]:
        with self.world.database.read() as connection:
            return job_records.open_jobs(connection, key)

    def check(self) -> None:
        """Check all invariants between two acts."""
        settings = self.world.dial.current().compression
        for key, account in self.accounts.items():
            now = self.state(key)
            seen = (now.unchanged, now.session, settings)
            if self._checked.get(key) == seen:
                continue
            check(account, now, settings)
            loaded = self.world.gateway.load_context(self.sessions[self.who(key)])
            assert loaded.messages == render(now.view, Dialect.OPENAI).messages
            self._checked[key] = seen

    def _next_turn(self, who: int, shape: AnyShape) -> Turn:
        self._turns[who] += 1
        return shape.turn(TAGS[who], self._turns[who])

    def _store(
        self, who: int, turn: Turn, *, closes: bool, usage: dict[str, int] | None = None
    ) -> None:
        key, session = self.key(who), self.sessions[who]
        self._count += 1
        event_id = f"event {self._count}"
        store = self.world.gateway.finalize_turn if closes else self.world.gateway.append
        receipt = store(
            session, turn.messages, origins=turn.origins, usage=usage, event_id=event_id
        )
        assert receipt.first_position == len(self.accounts[key].said)
        self.accounts[key].appended(turn.messages, self.state(key), closes=closes)
        if closes:
            self._last[who] = event_id, turn

    def _look_again(self, who: int) -> None:
        """Something but rows may have changed, such as the window."""
        key = self.key(who)
        account, now = self.accounts[key], self.state(key)
        assert (now.rows, now.summaries, now.cursor) == (
            account.state.rows,
            account.state.summaries,
            account.state.cursor,
        )
        account.state = now
