"""What is said in the sessions of a chaos run, decided by the seed alone.

A gateway says it and a recount afterwards compares it with what is stored, so neither needs to
trust the other. Every message holds a mark that no other message of the run has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

ChatDict = dict[str, Any]

_WORDS = (
    "the booking in question was made on the ninth of May and holds two passengers of whom one "
    "has a gold membership while the payment went through with a certificate and a credit card "
    "and the refund rules for that fare class say that a change is free until a day before "
    "departure so the agent looked the rules up and wrote down what they say about both"
)
_SENTENCES = (
    "请帮我查询这个订单的退款规则。",
    "客人有两位乘客,其中一位是金卡会员。",
    "付款使用了礼券和信用卡。",
    "出发前一天之前可以免费更改。",
)
_MARK = re.compile(r"\[(s\d+)\.\d+\.\d+\]")


@dataclass(frozen=True, slots=True)
class Part:
    """What one call of a gateway stores; `event_id` is the same whenever it is repeated."""

    event_id: str
    messages: tuple[ChatDict, ...]
    closes_turn: bool


@dataclass(frozen=True, slots=True)
class Saying:
    """One turn of a session, in one part or in several while it is open."""

    session: str
    parts: tuple[Part, ...]

    @property
    def messages(self) -> tuple[ChatDict, ...]:
        return tuple(message for part in self.parts for message in part.messages)


def session_ids(sessions: int) -> list[str]:
    """Return the sessions' ids."""
    return [f"s{number:02d}" for number in range(sessions)]


def owner_of(session: str) -> str:
    """Return who owns a session: one of three."""
    return f"owner{int(session[1:]) % 3}"


def sayings(seed: int, sessions: list[str], turns: int) -> Iterator[Saying]:
    """Turns at random to the sessions, at least one to each, each session's in their order."""
    rng = Random(f"{seed} order {sessions}")
    order = sessions + rng.choices(sessions, k=max(0, turns - len(sessions)))
    rng.shuffle(order)
    said = dict.fromkeys(sessions, 0)
    for session in order[:turns]:
        yield saying(seed, session, said[session])
        said[session] += 1


def saying(seed: int, session: str, number: int) -> Saying:
    """Turn `number` of a session."""
    writer = _Writer(Random(f"{seed} {session} {number}"), session, number)
    shape = writer.rng.choice(_SHAPES)
    parts = shape(writer)
    return Saying(
        session,
        tuple(
            Part(f"{session}.{number}.{place}", tuple(messages), place == len(parts) - 1)
            for place, messages in enumerate(parts)
        ),
    )


def in_one(turn: Saying) -> Saying:
    """Return the same turn, stored in one call."""
    return Saying(turn.session, (Part(turn.parts[0].event_id, turn.messages, True),))


def session_in(text: str) -> str | None:
    """Return the session that a text quotes first; None when it quotes none."""
    found = _MARK.search(text)
    return found[1] if found else None


@dataclass(slots=True)
class _Writer:
    rng: Random
    session: str
    number: int
    written: int = 0

    def text(self, least: int, most: int) -> str:
        mark = f"[{self.session}.{self.number}.{self.written}]"
        self.written += 1
        if int(self.session[1:]) % 5 == 0:
            return mark + "".join(self.rng.choices(_SENTENCES, k=max(1, least // 8)))
        words = _WORDS.split()
        start = self.rng.randrange(len(words))
        count = self.rng.randint(least, most)
        return f"{mark} {' '.join((words * 3)[start : start + count])}"

    def request(self) -> ChatDict:
        return {"role": "user", "content": self.text(8, 24)}

    def answer(self) -> ChatDict:
        return {"role": "assistant", "content": self.text(40, 90)}

    def group(self, calls: int = 1) -> list[ChatDict]:
        ids = [f"call_{self.number}_{self.written}_{place}" for place in range(calls)]
        asked = [
            {
                "id": identifier,
                "type": "function",
                "function": {"name": "look_up", "arguments": json.dumps({"q": self.text(3, 6)})},
            }
            for identifier in ids
        ]
        results = [
            {"role": "tool", "tool_call_id": identifier, "content": self.text(40, 90)}
            for identifier in ids
        ]
        return [{"role": "assistant", "content": None, "tool_calls": asked}, *results]


def _plain(writer: _Writer) -> list[list[ChatDict]]:
    return [[writer.request(), writer.answer()]]


def _with_tools(writer: _Writer) -> list[list[ChatDict]]:
    request = writer.request()
    flow = [message for _ in range(writer.rng.randint(1, 2)) for message in writer.group()]
    return [[request, *flow, writer.answer()]]


def _with_calls_at_once(writer: _Writer) -> list[list[ChatDict]]:
    return [[writer.request(), *writer.group(calls=2), writer.answer()]]


def _open_for_a_while(writer: _Writer) -> list[list[ChatDict]]:
    request, group, answer = writer.request(), writer.group(), writer.answer()
    return [[request, group[0]], group[1:], [answer]]


def _closed_without_more(writer: _Writer) -> list[list[ChatDict]]:
    return [[writer.request(), *writer.group(), writer.answer()], []]


_SHAPES = (_plain, _with_tools, _with_calls_at_once, _open_for_a_while, _closed_without_more)
