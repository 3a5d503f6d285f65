"""The course of a session, with afterturn and without: a pure rule over figures.

*Without* is the same conversation in an agent that summarises inline when a request reaches the
threshold, as agents do that have no workers: head, tail and summary by the same rules,
and a call that reads the middle. A conversation that simply grew would save more and
could not be sent at all. Requests are the assistant's messages: each was answered to what was live
before it. System prompt and tool definitions are on both sides and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.ledger import PassFigures, RowFigures
from workers.price_settings import ModelPrice
from workers.prices import cost
from workers.triggers import Trigger

_REQUESTED = frozenset({Trigger.MANUAL, Trigger.RECOMPACT, Trigger.HEAL})
"""Triggers of passes that no turn of the conversation called for."""

SUMMARISER_MOST = 40_000
"""Tokens that a call of the summariser reads at the most: 160,000 characters."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an inline pass keeps: tokens of head and tail, and from which size on it is made."""

    threshold: int
    head: int
    tail: int


@dataclass(frozen=True, slots=True)
class Prices:
    """Of the conversation's model and of the summariser's; None where one is not known."""

    main: ModelPrice | None = None
    summariser: ModelPrice | None = None

    @property
    def known(self) -> bool:
        return self.main is not None and self.summariser is not None


@dataclass(frozen=True, slots=True)
class Side:
    """Totals of one side: the prompts of its requests, of which `cached` tokens were sent the same
    way just before; and what summarising read and wrote."""

    prompt: int = 0
    cached: int = 0
    summariser_read: int = 0
    summariser_written: int = 0

    @property
    def tokens(self) -> int:
        """All that models were sent and that summarisers wrote."""
        return self.prompt + self.summariser_read + self.summariser_written

    def money(self, prices: Prices) -> float | None:
        """Return what that costs; None where a price is not known."""
        if prices.main is None or prices.summariser is None:
            return None
        return cost(
            prices.main, prompt_tokens=self.prompt - self.cached, cached_tokens=self.cached
        ) + cost(
            prices.summariser,
            prompt_tokens=self.summariser_read,
            answer_tokens=self.summariser_written,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """After a turn: live tokens with afterturn, those inline, those of everything ever said, and
    the totals of both sides. `passes` had changed the view by then."""

    turn: int
    managed: int
    inline: int
    whole: int
    passes: int
    with_: Side
    without: Side


@dataclass(frozen=True, slots=True)
class Course:
    """A session from its first turn here to now. `inline_passes` are the batch passes that an
    inline agent makes its user wait for, `batch_passes` those that its turns called for here:
    what a person asked for, or bulk work, is none of them."""

    points: tuple[Point, ...]
    threshold: int
    requests: int
    inline_passes: int
    batch_passes: int
    passes: int

    @property
    def with_(self) -> Side:
        return self.points[-1].with_ if self.points else Side()

    @property
    def without(self) -> Side:
        return self.points[-1].without if self.points else Side()

    @property
    def tokens_saved(self) -> int:
        """Net: what was not sent, less all that summarising took. The marker is part of what was
        sent, so its own cost is in it."""
        return self.without.tokens - self.with_.tokens

    def money_saved(self, prices: Prices) -> float | None:
        """Return the same in money; None where a price is not known."""
        without, with_ = self.without.money(prices), self.with_.money(prices)
        return None if without is None or with_ is None else without - with_

    def break_even_pass(self, prices: Prices) -> int | None:
        """Return after how many passes the session had won back their cost for good.

        None while it has not, 0 where it was never behind.
        """
        if self.passes and (not self.points or _gain(self.points[-1], prices) <= 0):
            return None
        found: int | None = None
        for point in reversed(self.points):
            if _gain(point, prices) < 0:
                return found
            found = point.passes
        return found if self.points else None


def _gain(point: Point, prices: Prices) -> float:
    if prices.known:
        return (point.without.money(prices) or 0.0) - (point.with_.money(prices) or 0.0)
    return float(point.without.tokens - point.with_.tokens)


@dataclass(slots=True)
class _View:
    """One side while the conversation goes on."""

    live: int = 0
    prompt: int = 0
    cached: int = 0
    read: int = 0
    written: int = 0
    sent_before: int = 0

    def request(self) -> None:
        """The model is sent all that is live."""
        self.prompt += self.live
        self.cached += min(self.sent_before, self.live)
        self.sent_before = self.live

    def rewritten(self, live: int) -> None:
        """History was changed: the provider's cache holds nothing of it."""
        self.live = live
        self.sent_before = 0

    @property
    def side(self) -> Side:
        return Side(self.prompt, self.cached, self.read, self.written)


def follow(
    rows: Sequence[RowFigures],
    passes: Sequence[PassFigures],
    bounds: Bounds,
    *,
    imported_rows: int,
    live_tokens: int,
) -> Course:
    """Replay a session by its figures.

    The first `imported_rows` rows were sent by others: both sides begin with what was live then.
    `live_tokens` is what is live now, which includes what a person has undone meanwhile.
    """
    managed, inline, whole = _View(), _View(), 0
    points: list[Point] = []
    turn = requests = inline_passes = done = batch = 0
    left = list(passes)

    def close_turn() -> None:
        if turn:
            points.append(
                Point(turn, managed.live, inline.live, whole, done, managed.side, inline.side)
            )

    for index, row in enumerate(rows):
        ours = index >= imported_rows
        while ours and left and left[0].at < row.at:
            one = left.pop(0)
            done, batch = done + _changes(one), batch + _is_batch(one)
            _apply(managed, one)
        if row.opens_turn:
            close_turn()
            turn += 1
        if ours and row.role == "assistant":
            inline_passes += _compact_inline(inline, bounds)
            managed.request()
            inline.request()
            requests += 1
        whole += row.tokens
        if not row.hidden:
            managed.live += row.tokens
            inline.live += row.tokens
    for one in left:
        done, batch = done + _changes(one), batch + _is_batch(one)
        _apply(managed, one)
    managed.live = live_tokens
    close_turn()
    return Course(tuple(points), bounds.threshold, requests, inline_passes, batch, done)


def _apply(managed: _View, one: PassFigures) -> None:
    managed.read += one.prompt_tokens
    managed.written += one.completion_tokens
    if _changes(one):
        managed.rewritten(one.tokens_after)


def _changes(one: PassFigures) -> bool:
    return one.tokens_after != one.tokens_before


def _is_batch(one: PassFigures) -> bool:
    return one.kind == "batch" and one.trigger not in _REQUESTED and _changes(one)


def _compact_inline(inline: _View, bounds: Bounds) -> int:
    """Summarise as an inline agent does before a request that reaches the threshold."""
    middle = inline.live - bounds.head - bounds.tail
    if inline.live < bounds.threshold or middle <= 0:
        return 0
    summary = min(max(2_000, min(middle // 5, 10_000)), middle // 2)
    inline.read += min(middle, SUMMARISER_MOST)
    inline.written += summary
    inline.rewritten(bounds.head + bounds.tail + summary)
    return 1
