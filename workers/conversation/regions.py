"""Head, middle and tail of a live view; see docs/explanation/regions.md.

A micro pass need not read a whole session: `head_end` also works on the beginning of a view, and
`tail_start` on the end of one. Each returns a special value when that part was too short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storage.conversations.rows import Row
from workers.conversation.transcript import ToolGroup, is_system, tool_groups

_TAIL_FLOORS = (8, 3)
"""Count floors of the tail when its newest rows alone overfill it."""

SOFT_CEILING = 1.5
"""Factor of its budget up to which rows may fill the tail."""


@dataclass(frozen=True, slots=True)
class RegionRules:
    """The settings that regions depend on: counts of messages, and tokens."""

    protect_first_n: int
    protect_last_n: int
    min_tail_user_messages: int
    tail_budget: int


@dataclass(frozen=True, slots=True)
class Regions:
    """Indexes into a whole live view: head is before `head_end`, tail from `tail_start` on.

    `held` are indexes between the two that stay live nevertheless: later system messages, the
    first request and the newest ones, groups that still wait for a result or have results in
    another region.
    """

    head_end: int
    tail_start: int
    held: frozenset[int]

    @property
    def middle(self) -> tuple[int, ...]:
        """The indexes that compaction may work on."""
        return tuple(i for i in range(self.head_end, self.tail_start) if i not in self.held)


def find_regions(
    rows: Sequence[Row],
    rules: RegionRules,
    *,
    tail_from: int | None = None,
    groups: Sequence[ToolGroup] | None = None,
) -> Regions:
    """Divide a whole live view.

    The tail begins at index `tail_from`, if given, but never before the last marker. `groups` are
    the tool groups of `rows`, if known.
    """
    groups = tool_groups(rows) if groups is None else groups
    head = head_end(rows, rules, groups=groups)
    if tail_from is None:
        tail_from = tail_start(rows, rules, groups=groups)
    else:
        markers = [i + 1 for i, row in enumerate(rows) if row.kind.is_marker]
        tail_from = max(tail_from, *markers[-1:], 0)
    tail = max(tail_from, head)
    held = {i for i in range(head, tail) if is_system(rows[i])}
    requests = [i for i, row in enumerate(rows) if row.opens_turn]
    newest = rules.min_tail_user_messages
    held.update(i for i in requests[:1] + requests[-newest:] * bool(newest) if head <= i < tail)
    for group in _in_both_directions(groups):
        inside = [i for i in group.members if head <= i < tail]
        whole = len(inside) == len(group.members) and held.isdisjoint(inside)
        if group.unanswered or not whole:
            held.update(inside)
    return Regions(head, tail, frozenset(held))


def _in_both_directions(groups: Sequence[ToolGroup]) -> Iterator[ToolGroup]:
    """Yield every group three times, in alternating order.

    A row that answers calls of two groups ties them together, so what stays live has to spread in
    both directions.
    """
    yield from groups
    yield from reversed(groups)
    yield from groups


def head_end(
    rows: Sequence[Row],
    rules: RegionRules,
    *,
    complete: bool = True,
    groups: Sequence[ToolGroup] | None = None,
) -> int:
    """Return the index after the head of a view that begins with `rows`.

    The head holds the opening system messages, then up to `protect_first_n` messages while it is
    not larger than the tail budget; a first request that comes next is included at any size.
    A tool group is never cut, a marker never included. Where `rows` are not the `complete` view,
    len(rows) means that a longer beginning of it is needed. `groups` are the tool groups of
    `rows`, if known.
    """
    opening = 0
    while opening < len(rows) and is_system(rows[opening]):
        opening += 1
    end = opening
    if end < len(rows) and rows[end].opens_turn:
        end += 1
    size = sum(row.tokens for row in rows[:end])
    limit = min(opening + rules.protect_first_n, len(rows))
    while end < limit and not rows[end].kind.is_marker:
        size += rows[end].tokens
        if size > rules.tail_budget:
            break
        end += 1
    known = tool_groups(rows) if groups is None else groups
    groups = [group for group in known if group.call < end]
    waits = any(g.unanswered and not _request_between(rows, g.call, len(rows)) for g in groups)
    if waits and not complete:
        return len(rows)
    return _uncut_head(groups, rows, opening, end, rules.tail_budget)


def _uncut_head(
    groups: Sequence[ToolGroup], rows: Sequence[Row], opening: int, end: int, budget: int
) -> int:
    for group in groups:
        if group.call >= end or (group.last < end and not group.unanswered):
            continue
        whole = _local_end(rows, group)
        fits = sum(row.tokens for row in rows[: whole + 1]) <= budget
        if fits and not group.unanswered and whole == group.last:
            end = whole + 1
        else:
            end = max(opening, group.call)
            break
    return end


def tail_start(
    rows: Sequence[Row], rules: RegionRules, *, groups: Sequence[ToolGroup] | None = None
) -> int:
    """Return the index of the first tail row of a view that ends with `rows`.

    Walks back until the tail holds `protect_last_n` messages and its budget is full; a row that
    would fill it beyond one and a half times its budget stays outside. When the newest messages
    alone overfill it that far, the count falls to 8, then 3. The tail starts after the last
    marker. A group is never cut unless a request lies between its call and its result. 0 means
    that the tail may begin before `rows`. `groups` are the tool groups of `rows`, if known.
    """
    first = next(
        (i + 1 for i in range(len(rows) - 1, -1, -1) if rows[i].kind.is_marker),
        0,
    )
    ceiling = SOFT_CEILING * rules.tail_budget
    start = len(rows)
    for floor in (rules.protect_last_n, *(f for f in _TAIL_FLOORS if f < rules.protect_last_n)):
        start = max(first, len(rows) - floor)
        if sum(row.tokens for row in rows[start:]) <= ceiling:
            break
    size = sum(row.tokens for row in rows[start:])
    while start > first and size < rules.tail_budget:
        size += rows[start - 1].tokens
        if size > ceiling:
            break
        start -= 1
    known = tool_groups(rows) if groups is None else groups
    return _uncut_tail(known, rows, first, start)


def _uncut_tail(groups: Sequence[ToolGroup], rows: Sequence[Row], first: int, start: int) -> int:
    grouped = {i for group in groups for i in group.members}
    for group in reversed(groups):
        reaches_in = any(i >= start for i in group.results) and group.call < start
        if reaches_in and not _request_between(rows, group.call, start):
            start = max(first, group.call)
    # Results at the beginning of the part whose call lies before it.
    stray = next((i for i in range(start, len(rows)) if rows[i].answers and i not in grouped), None)
    if stray is not None and not _request_between(rows, -1, stray) and first == 0:
        return 0
    return start


def _local_end(rows: Sequence[Row], group: ToolGroup) -> int:
    """Return the last member of a group before the next request."""
    end = group.call
    for i in group.results:
        if _request_between(rows, group.call, i):
            break
        end = i
    return end


def _request_between(rows: Sequence[Row], after: int, before: int) -> bool:
    return any(row.opens_turn for row in rows[after + 1 : before])
