"""Divide what does not fit into one request (ENGINE.md §6.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from storage.rows import Row
from workers.summariser.passages import passages, passages_size
from workers.transcript import tool_groups


def split(rows: Sequence[Row], room: int) -> list[list[Row]]:
    """Divide message rows into consecutive parts whose passages take at most `room` characters.

    Cuts between exchanges; inside one only where it alone is too large, then between tool groups.
    A single group that is too large is a part of its own, to be cut for the prompt.
    """
    # With the line break behind it. In a part that begins later it may be shorter: the name of
    # a tool is known from its call alone.
    sizes = [passages_size((one,)) + 1 for one in passages(rows)]
    pieces = _fitting(rows, sizes, room)
    return [[rows[i] for i in part] for part in _packed(pieces, sizes, room)]


def batches(texts: Sequence[str], room: int) -> list[list[str]]:
    """Group texts, in order, so that each group takes at most `room` characters; a group holds
    two at least, so that joining the groups comes to an end."""
    groups: list[list[str]] = []
    for text in texts:
        if groups and (len(groups[-1]) < 2 or sum(map(len, groups[-1])) + len(text) <= room):
            groups[-1].append(text)
        else:
            groups.append([text])
    return groups


def _fitting(rows: Sequence[Row], sizes: Sequence[int], room: int) -> Iterator[range]:
    """Exchanges, and the groups of those that are too large, as ranges of indexes."""
    for exchange in _cut(range(len(rows)), lambda i: rows[i].opens_turn):
        if _size(exchange, sizes) <= room:
            yield exchange
        else:
            yield from _groups(rows, exchange)


def _packed(pieces: Iterable[range], sizes: Sequence[int], room: int) -> Iterator[range]:
    part = range(0)
    for piece in pieces:
        longer = range(part.start, piece.stop)
        if part and _size(longer, sizes) > room:
            yield part
            longer = piece
        part = longer
    if part:
        yield part


def _size(part: range, sizes: Sequence[int]) -> int:
    return sum(sizes[part.start : part.stop]) - 1


def _groups(rows: Sequence[Row], exchange: range) -> list[range]:
    """Single rows and whole tool groups; groups that lie within each other stay together."""
    groups = tool_groups(rows[exchange.start : exchange.stop])
    inside = {exchange[i] for one in groups for i in range(one.call + 1, one.last + 1)}
    return _cut(exchange, lambda i: i not in inside)


def _cut(whole: range, begins: Callable[[int], bool]) -> list[range]:
    """Cut before each index at which something begins."""
    cuts = [i for i in whole[1:] if begins(i)]
    return [range(*ends) for ends in pairwise([whole.start, *cuts, whole.stop])] if whole else []
