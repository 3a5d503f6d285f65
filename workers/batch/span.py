"""What a pass takes out of the live view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storage.rows import Row
from workers.batch.wishes import AROUND_TURNS, Wishes
from workers.regions import RegionRules, Regions, find_regions
from workers.transcript import ToolGroup, tool_groups
from workers.triggers import TriggerRules


@dataclass(frozen=True, slots=True)
class Span:
    """Live rows that leave the view together, in view order. Markers among them are apart.

    `kept` are the positions of messages between the first and the last that stay. The new marker
    stands at `place`, the position of the last row that leaves.
    """

    messages: tuple[Row, ...]
    markers: tuple[Row, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, view: Sequence[Row], indexes: Iterable[int]) -> Span:
        """The rows at `indexes` of a whole live view."""
        taken = sorted(indexes)
        gone = set(taken)
        between = range(taken[0], taken[-1] + 1) if taken else range(0)
        return cls(
            messages=tuple(view[i] for i in taken if not view[i].kind.is_marker),
            markers=tuple(view[i] for i in taken if view[i].kind.is_marker),
            kept=tuple(
                view[i].position for i in between if i not in gone and not view[i].kind.is_marker
            ),
        )

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in (*self.messages, *self.markers))

    @property
    def place(self) -> int:
        return max(row.position for row in (*self.messages, *self.markers))

    @property
    def first_position(self) -> int:
        return min(row.position for row in (*self.messages, *self.markers))


def divide(
    view: Sequence[Row],
    regions: RegionRules,
    rules: TriggerRules,
    wishes: Wishes,
    *,
    turn_open: bool,
    groups: Sequence[ToolGroup] | None = None,
) -> tuple[Regions, Span]:
    """Find the regions of a whole live view for a trigger, and what of the middle is taken.
    `groups` are the tool groups of the view where they are known."""
    tail_from = _tail_from(view, wishes)
    found = find_regions(view, regions, tail_from=tail_from, groups=groups)
    places = range(len(view)) if wishes.around is None else _near(view, wishes.around)
    if turn_open and not rules.enters_open_turn:
        newest = max((i for i, row in enumerate(view) if row.opens_turn), default=len(view))
        if newest < found.tail_start:
            found = find_regions(view, regions, tail_from=newest, groups=groups)
            # A marker may stand inside the open turn, behind groups that were not closed then.
            places = range(places.start, min(places.stop, newest))
    if len(places) == len(view):
        return found, Span.of(view, found.middle)
    # Every marker goes: one is to be left.
    taken = {i for i in found.middle if i in places or view[i].kind.is_marker}
    return found, Span.of(view, _whole_groups(view, taken))


def _tail_from(view: Sequence[Row], wishes: Wishes) -> int | None:
    if wishes.keep_last is not None:
        requests = [i for i, row in enumerate(view) if row.opens_turn]
        kept = requests[max(0, len(requests) - wishes.keep_last) :]
        return kept[0] if kept else len(view)
    if wishes.up_to is not None:
        return sum(row.position <= wishes.up_to for row in view)
    return None


def _near(view: Sequence[Row], position: int) -> range:
    """Indexes of the turns around the one that holds `position`."""
    starts = [i for i, row in enumerate(view) if row.opens_turn]
    number = sum(view[i].position <= position for i in starts) - 1
    first = max(0, number - AROUND_TURNS)
    last = number + AROUND_TURNS + 1
    begin = starts[first] if number >= first and starts else 0
    return range(begin, starts[last] if last < len(starts) else len(view))


def _whole_groups(view: Sequence[Row], taken: set[int]) -> set[int]:
    """Leave out the groups of which a part stays; forth and back, as groups may share a row."""
    groups = tool_groups(view)
    left = set(taken)
    for group in (*groups, *reversed(groups), *groups):
        if not left.issuperset(group.members):
            left.difference_update(group.members)
    return left
