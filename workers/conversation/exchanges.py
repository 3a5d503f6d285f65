"""The choice of exchanges that a micro pass absorbs; see docs/explanation/micro.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from storage.conversations.rows import Row
from workers.conversation.transcript import ToolGroup, is_kept_by_micro, tool_groups


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

    `question` is the request that it answers, if known. `end` is the position after everything
    that was examined for it, so a cursor set there skips the exchange.
    """

    question: Row | None
    units: tuple[Unit, ...]
    end: int

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)


@dataclass(frozen=True, slots=True)
class Found:
    """The oldest exchanges, which together hold enough tokens for a pass."""

    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class TooLittle:
    """The answer where the middle holds fewer tokens than a pass needs."""

    tokens: int


@dataclass(frozen=True, slots=True)
class LookFurther:
    """The answer where the given rows end too early: call again with more of them."""


def find_exchanges(
    rows: Sequence[Row],
    *,
    limit: int,
    min_tokens: int,
    tail_budget: int,
    answered_elsewhere: Collection[str] = (),
    most_tokens: int = 0,
    complete: bool,
    settled: bool = False,
    groups: Sequence[ToolGroup] | None = None,
) -> Found | TooLittle | LookFurther:
    """Choose the oldest whole exchanges of `rows` until they hold `min_tokens`.

    `rows` are the live rows from the first unabsorbed one on, and `limit` is the position at which
    the middle ends. `complete` says that `rows` reach the end of the session; otherwise more may
    follow. A turn that reaches beyond `limit` is taken in part, up to its last whole tool group
    before `limit`, only when what is left of it is larger than `tail_budget`; where rows may
    follow, only when the given rows hold more than `most_tokens`, the most that one pass can take.
    Groups that wait for a result or reach beyond what is taken stay, and so do rows that answer
    one of `answered_elsewhere`, calls of live rows before `rows`. With `settled`, a call that none
    of so many rows answers counts as lost; otherwise the rows after it may have to be read.
    `groups` are the tool groups of `rows`, if known.
    """
    bundles = _bundles(tool_groups(rows) if groups is None else groups)
    chosen: list[Exchange] = []
    found_tokens = 0
    for segment in _segments(rows):
        first, last = rows[segment[0]], rows[segment[-1]]
        if first.position >= limit:
            break
        size = sum(rows[i].tokens for i in segment)
        # Then the end of this turn is unknown, and so is whether it is whole. A turn larger than
        # the tail is cut in any case.
        cut_off = last is rows[-1] and not complete
        if cut_off and size <= max(tail_budget + min_tokens, most_tokens):
            return LookFurther()
        whole = not cut_off and last.position < limit
        if not whole and size <= tail_budget:
            break
        may_wait = cut_off and not settled
        exchange = _exchange(rows, segment, bundles, limit, answered_elsewhere, cut_off=may_wait)
        if cut_off and not exchange.units:
            return LookFurther()
        if exchange.units:
            chosen.append(exchange)
            found_tokens += exchange.tokens
            if found_tokens >= min_tokens:
                return Found(tuple(chosen))
        if not whole:
            break
    else:
        if not complete:
            return LookFurther()
    return TooLittle(found_tokens)


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Indexes of rows that belong together; `waits`: a call among them has no result yet."""

    rows: tuple[int, ...]
    waits: bool


def _bundles(groups: Sequence[ToolGroup]) -> dict[int, _Bundle]:
    """Return the tool groups by their rows; groups that share a row are one bundle."""
    bundles: dict[int, _Bundle] = {}
    for group in groups:
        shared = {bundles[i] for i in group.members if i in bundles}
        together = {*group.members, *(i for bundle in shared for i in bundle.rows)}
        waits = group.unanswered or any(bundle.waits for bundle in shared)
        bundle = _Bundle(tuple(sorted(together)), waits)
        bundles.update(dict.fromkeys(bundle.rows, bundle))
    return bundles


def _segments(rows: Sequence[Row]) -> list[range]:
    """Divide rows at the requests; a segment begins with its request if that is among the rows."""
    starts = [i for i, row in enumerate(rows) if row.opens_turn]
    if rows and starts[:1] != [0]:
        starts.insert(0, 0)
    return [range(i, j) for i, j in pairwise([*starts, len(rows)])]


def _exchange(
    rows: Sequence[Row],
    segment: range,
    bundles: Mapping[int, _Bundle],
    limit: int,
    answered_elsewhere: Collection[str],
    *,
    cut_off: bool,
) -> Exchange:
    """Return what may be absorbed of a turn.

    Where the rows were `cut_off`, the missing result of a group may be among the rows that were
    not read, so nothing from that group on is taken.
    """
    taken: list[Unit] = []
    end = rows[segment[0]].position + 1
    seen: set[int] = set()
    for i in segment:
        if rows[i].position >= limit:
            break
        if i in seen:
            continue
        bundle = bundles.get(i, _Bundle((i,), waits=False))
        seen.update(bundle.rows)
        unit = Unit(tuple(rows[m] for m in bundle.rows))
        here = bundle.rows[0] in segment and bundle.rows[-1] in segment
        reaches_out = here and unit.rows[-1].position >= limit
        if (bundle.waits and cut_off) or (reaches_out and not bundle.waits):
            break
        end = max(end, rows[i].position + 1)
        if here and not bundle.waits and _absorbable(unit, answered_elsewhere):
            taken.append(unit)
            end = max(end, unit.rows[-1].position + 1)
    question = rows[segment[0]] if rows[segment[0]].opens_turn else None
    return Exchange(question, tuple(taken), min(end, limit))


def _absorbable(unit: Unit, answered_elsewhere: Collection[str]) -> bool:
    if any(is_kept_by_micro(row) for row in unit.rows):
        return False
    calls = {call for row in unit.rows for call in row.calls}
    return not any(
        answer in answered_elsewhere and answer not in calls
        for row in unit.rows
        for answer in row.answers
    )
