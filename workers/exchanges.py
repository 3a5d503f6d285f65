"""Which exchanges a micro pass absorbs (ENGINE.md §7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from storage.rows import Row
from workers.transcript import is_kept_by_micro, tool_groups


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that are absorbed together or not at all: a tool group or a single row."""

    rows: tuple[Row, ...]

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The part of one turn that a pass may absorb, oldest first.

    `question` is the request that it answers, if that is known. `end` is the position behind
    everything that was looked at for it, so that a cursor set there skips the exchange.
    """

    question: Row | None
    units: tuple[Unit, ...]
    end: int

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)


@dataclass(frozen=True, slots=True)
class Found:
    """Oldest exchanges that hold enough together."""

    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class TooLittle:
    """The middle holds less than a pass needs."""

    tokens: int


@dataclass(frozen=True, slots=True)
class LookFurther:
    """The rows given end before enough was found; call again with more of them."""


def find_exchanges(
    rows: Sequence[Row],
    *,
    limit: int,
    min_tokens: int,
    tail_budget: int,
    answered_elsewhere: Collection[str] = (),
    complete: bool,
) -> Found | TooLittle | LookFurther:
    """Choose the oldest whole exchanges of `rows` until they hold `min_tokens`.

    `rows` are live rows from the first that is not absorbed yet on, and `limit` is the position
    that the middle ends at. `complete` says that `rows` reach the end of the session, else they
    may be continued. A turn that reaches beyond `limit` is taken in part, up to its last whole
    tool group before it, only when what is left of it is larger than `tail_budget`. Groups that
    wait for a result or reach beyond what is taken stay, and so do rows that answer one of
    `answered_elsewhere`, calls of live rows before `rows`.
    """
    chosen: list[Exchange] = []
    held = 0
    for segment in _segments(rows):
        if segment[0].position >= limit:
            break
        size = sum(row.tokens for row in segment)
        # Where this turn ends is not known then, and so neither whether it is whole. One that is
        # larger than the tail is cut whatever follows.
        cut_off = segment[-1] is rows[-1] and not complete
        if cut_off and size <= tail_budget + min_tokens:
            return LookFurther()
        whole = not cut_off and segment[-1].position < limit
        if not whole and size <= tail_budget:
            break
        exchange = _exchange(segment, limit, answered_elsewhere, cut_off=cut_off)
        if cut_off and not exchange.units:
            return LookFurther()
        if exchange.units:
            chosen.append(exchange)
            held += exchange.tokens
            if held >= min_tokens:
                return Found(tuple(chosen))
        if not whole:
            break
    else:
        if not complete:
            return LookFurther()
    return TooLittle(held)


def _segments(rows: Sequence[Row]) -> list[list[Row]]:
    """Divide rows at the requests; a segment begins with its request if that is among the rows."""
    segments: list[list[Row]] = []
    for row in rows:
        if row.opens_turn or not segments:
            segments.append([])
        segments[-1].append(row)
    return segments


def _exchange(
    segment: list[Row], limit: int, answered_elsewhere: Collection[str], *, cut_off: bool
) -> Exchange:
    """What may be absorbed of a turn. Where the rows were `cut_off`, a group that waits for a
    result may only wait for rows that were not read, so nothing from there on is taken."""
    groups = tool_groups(segment)
    group_of = {i: group for group in groups for i in group.members}
    taken: list[Unit] = []
    end = segment[0].position + 1
    seen: set[int] = set()
    for i, row in enumerate(segment):
        if row.position >= limit:
            break
        if i in seen:
            continue
        members = group_of[i].members if i in group_of else (i,)
        seen.update(members)
        unit = Unit(tuple(segment[m] for m in members))
        waits = i in group_of and group_of[i].unanswered
        if (waits and cut_off) or (not waits and unit.rows[-1].position >= limit):
            break
        end = max(end, unit.rows[-1].position + 1)
        if _absorbable(unit, waits, answered_elsewhere):
            taken.append(unit)
    question = segment[0] if segment[0].opens_turn else None
    return Exchange(question, tuple(taken), min(end, limit))


def _absorbable(unit: Unit, unanswered: bool, answered_elsewhere: Collection[str]) -> bool:
    if unanswered or any(is_kept_by_micro(row) for row in unit.rows):
        return False
    calls = {call for row in unit.rows for call in row.calls}
    return not any(
        answer in answered_elsewhere and answer not in calls
        for row in unit.rows
        for answer in row.answers
    )
