"""What people and agents said in the real conversations, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle, islice
from random import Random

from tests.support.sessions.conversations import SESSION_FILES, real_sessions
from tests.support.sessions.play import ChatDict, turns_of
from workers.conversation.tokens import estimate_message

_ORDER = 7
"""Seed of the order of conversations: short and long ones are mixed, each stays whole."""

Said = list[ChatDict]


class RealTalk:
    """Every turn of every real conversation, without system prompts, one conversation after the
    other, in a fixed order."""

    def __init__(self) -> None:
        talks = [talk for name in SESSION_FILES for _, talk in real_sessions(name)]
        Random(_ORDER).shuffle(talks)
        said = ([m for m in talk if m["role"] not in ("system", "developer")] for talk in talks)
        self.turns: list[Said] = [one.messages for talk in said for one in turns_of(talk)]

    def from_turn(self, number: int) -> Iterator[Said]:
        """Turns from that one on, without end."""
        start = number % len(self.turns)
        return cycle(chain(islice(self.turns, start, None), islice(self.turns, start)))

    def past(self, talk: Iterator[Said], tokens: int) -> list[Said]:
        """Return the next turns of `talk` that hold at least that many tokens."""
        taken: list[Said] = []
        size = 0
        while size < tokens:
            taken.append(next(talk))
            size += sum(map(estimate_message, taken[-1]))
        return taken
