"""A stored session of much tool output, and what pruning makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from producers import Gateway, Session
from storage import guards
from storage.conversations import messages, sessions
from storage.conversations.rows import Row
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.guards import GuardName, GuardRecord
from storage.jobs import JobKind
from tests.support.sessions.chat import assistant, result, user
from tests.support.sessions.play import Play, Turn, playing
from tests.support.sessions.pruning import call
from tests.support.sessions.strategies import ChatDict
from workers.runtime.pass_context import PassResult

SMALL: dict[str, Any] = {
    "threshold_tokens": 20_000,
    "protect_last_n": 4,
    "proactive_prune_tokens": 8_000,
    "proactive_prune_min_result_chars": 1_000,
    "proactive_prune_min_reclaim_tokens": 1_000,
    "micro_compact": False,
}
"""Settings under which a dozen turns of `log_turn` are worth a pass."""


def log(number: int, lines: int = 120) -> str:
    """Return what a tool gave: about 1,000 tokens for 120 lines."""
    return "".join(f"run {number}, step {step}: nothing to see\n" for step in range(lines))


def log_turn(number: int, lines: int = 120) -> list[ChatDict]:
    """Return a request, a command with a long output, an answer."""
    return [
        user(f"Run number {number}, please."),
        call("bash", {"command": f"make run-{number}"}, f"c{number}"),
        result(f"c{number}", log(number, lines)),
        assistant(f"Run {number} is done."),
    ]


@dataclass(frozen=True, slots=True)
class ToolTalk:
    """A session that grows by turns of `log_turn`, whose jobs are worked one at a time."""

    play: Play
    session: Session

    @property
    def gateway(self) -> Gateway:
        return self.play.gateway

    @property
    def database(self) -> Database:
        return self.play.database

    def say(self, *numbers: int, lines: int = 120) -> None:
        for number in numbers:
            self.play.say(self.session, Turn(log_turn(number, lines), []))

    def work_off(self) -> list[PassResult]:
        """Work whatever is due; return the results of the prune jobs."""
        done = self.play.work_off()
        return [one for job in done if job.kind is JobKind.PRUNE for one in job.passes]

    def record(self) -> SessionRecord:
        with self.database.read() as connection:
            return sessions.fetch(connection, self.session.key)

    def view(self) -> list[Row]:
        return self.play.view(self.session)

    def contents(self) -> list[Any]:
        return [row.message["content"] for row in self.view() if row.message is not None]

    def originals(self) -> list[Any]:
        return [row.message for row in self.play.everything(self.session)]

    def guards(self) -> dict[GuardName, GuardRecord]:
        with self.database.read() as connection:
            return guards.read_all(connection, self.database, self.session.key)

    def put(self, name: GuardName, **facts: Any) -> None:
        with self.database.write() as connection:
            guards.put(connection, self.database, self.session.key, name, **facts)

    def short(self) -> list[int]:
        """Return positions of the rows of the view that are shown short."""
        return [row.position for row in self.view() if row.pruned]

    def check(self) -> None:
        """Check that the session's counters are those of its view and every original is there."""
        view, record = self.view(), self.record()
        assert record.live_tokens == sum(row.tokens for row in view)
        assert record.live_messages == len(view)

    def live(self) -> int:
        with self.database.read() as connection:
            return len(messages.read_outline(connection, self.session.key))


@contextmanager
def tool_talk(url: str, **settings: Any) -> Iterator[ToolTalk]:
    """Yield a session `s` on a database, with the settings `SMALL` and these."""
    offered = {
        key: settings.pop(key)
        for key in ("failpoint", "offset_ms", "summariser")
        if key in settings
    }
    with playing(url, **offered, **{**SMALL, **settings}) as play:
        session = play.gateway.open_session("s", model="m", context_window=128_000)
        yield ToolTalk(play, session)
