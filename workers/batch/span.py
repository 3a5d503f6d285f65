"""The rows that a batch pass takes out of the live view, and the options of a request for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from storage.conversations.rows import Row
from workers.conversation.regions import RegionRules, Regions, find_regions
from workers.conversation.transcript import ToolGroup, tool_groups
from workers.policy.triggers import TriggerRules

AROUND_TURNS = 2
"""Turns on either side of the one that `around` names that a pass takes too."""


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """The options of a request: a topic that gets most of the summary's room, and the part to
    compact; None means the usual part.

    `keep_last` is how many of the newest turns stay word for word. `up_to` is the position of the
    last message to compact, `around` a position in the middle of the turns to compact.
    """

    focus: str = ""
    keep_last: int | None = None
    up_to: int | None = None
    around: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the usual part is meant."""
        return self.keep_last is None and self.up_to is None and self.around is None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CompactionOptions:
        """Read the options of a job; unknown ones, of a newer version, are ignored."""
        return cls(**{name: options[name] for name in cls.__dataclass_fields__ if name in options})

    def options(self) -> dict[str, Any]:
        """Return the options in the form that a job stores."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class Span:
    """Live rows that leave the view together, in view order; messages and markers apart.

    `kept` are the positions of messages between the first and the last that stay. The new marker
    gets `place`, the position of the last row that leaves.
    """

    messages: tuple[Row, ...]
    markers: tuple[Row, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, view: Sequence[Row], indexes: Iterable[int]) -> Span:
        """Take the rows at `indexes` of a whole live view."""
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
    options: CompactionOptions,
    *,
    turn_open: bool,
    groups: Sequence[ToolGroup] | None = None,
) -> tuple[Regions, Span]:
    """Find the regions of a whole live view for a trigger, and the span of the middle to take.
    `groups` are the tool groups of the view if known."""
    tail_from = _tail_from(view, options)
    found = find_regions(view, regions, tail_from=tail_from, groups=groups)
    places = range(len(view)) if options.around is None else _near(view, options.around)
    if turn_open and not rules.enters_open_turn:
        newest = max((i for i, row in enumerate(view) if row.opens_turn), default=len(view))
        if newest < found.tail_start:
            found = find_regions(view, regions, tail_from=newest, groups=groups)
            # A marker may lie inside the open turn, after groups that were not closed then.
            places = range(places.start, min(places.stop, newest))
    if len(places) == len(view):
        return found, Span.of(view, found.middle)
    # Every marker goes, so that only the new one is left.
    taken = {i for i in found.middle if i in places or view[i].kind.is_marker}
    return found, Span.of(view, _whole_groups(view, taken))


def _tail_from(view: Sequence[Row], options: CompactionOptions) -> int | None:
    if options.keep_last is not None:
        requests = [i for i, row in enumerate(view) if row.opens_turn]
        kept = requests[max(0, len(requests) - options.keep_last) :]
        return kept[0] if kept else len(view)
    if options.up_to is not None:
        return sum(row.position <= options.up_to for row in view)
    return None


def _near(view: Sequence[Row], position: int) -> range:
    """Return the indexes of the turns around the one that holds `position`."""
    starts = [i for i, row in enumerate(view) if row.opens_turn]
    number = sum(view[i].position <= position for i in starts) - 1
    first = max(0, number - AROUND_TURNS)
    last = number + AROUND_TURNS + 1
    begin = starts[first] if number >= first and starts else 0
    return range(begin, starts[last] if last < len(starts) else len(view))


def _whole_groups(view: Sequence[Row], taken: set[int]) -> set[int]:
    """Leave out groups of which a part stays; forwards and backwards, as groups may share a row."""
    groups = tool_groups(view)
    left = set(taken)
    for group in (*groups, *reversed(groups), *groups):
        if not left.issuperset(group.members):
            left.difference_update(group.members)
    return left
