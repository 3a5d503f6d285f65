"""Structure of a conversation: tool groups, and the rows that a micro pass never absorbs.

All functions take rows in view order and return indexes into that sequence or new values.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from storage.conversations.rows import Kind, Origin, Row

SYSTEM_ROLES = frozenset({"system", "developer"})

_MOST_ALIKE = 64
"""How many calls with the same id are distinguished within one run of results."""


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """A row with tool calls and every row that answers one of them.

    `call` and `results` are indexes; `results` is in view order. `answered_by` holds for each call,
    in the order of the calling row, the index of the newest row that answers it, or None.
    """

    call: int
    calls: tuple[str, ...]
    results: tuple[int, ...]
    answered_by: tuple[int | None, ...]

    @property
    def unanswered(self) -> bool:
        """Whether some call of the group has no result."""
        return None in self.answered_by

    @property
    def members(self) -> tuple[int, ...]:
        return (self.call, *self.results)

    @property
    def last(self) -> int:
        return max(self.members)


@dataclass(slots=True)
class _OpenGroup:
    call: int
    calls: tuple[str, ...]
    results: list[int] = field(default_factory=list)
    answered_by: list[int | None] = field(default_factory=list)

    def waits_for(self, answer: str) -> bool:
        return any(
            call == answer and by is None
            for call, by in zip(self.calls, self.answered_by, strict=True)
        )

    def take(self, index: int, answer: str) -> None:
        """Let row `index` answer the first waiting call with that id, else the last one."""
        slots = [slot for slot, call in enumerate(self.calls) if call == answer]
        slot = next((s for s in slots if self.answered_by[s] is None), slots[-1])
        self.answered_by[slot] = index
        if index not in self.results:
            self.results.append(index)


def tool_groups(rows: Sequence[Row]) -> tuple[ToolGroup, ...]:
    """Find the tool groups of `rows`, in the order of their calls.

    A result pairs by position first: it belongs to the newest calling rows before it if they make
    a call with its id, so a denial and then the real result stay with one call. Otherwise it
    belongs to the newest group before it that waits for its id, then to the newest that has it.
    Ids that recur within a session (49 of 200 tau-bench sessions have some) are paired correctly.
    A row that answers nothing before it is in no group: an orphan.
    """
    groups: list[_OpenGroup] = []
    by_id: dict[str, deque[_OpenGroup]] = defaultdict(deque)
    run_starts = 0
    for index, row in enumerate(rows):
        if row.calls and not (index and rows[index - 1].calls and not rows[index - 1].answers):
            run_starts = index
        for answer in row.answers:
            if answer in by_id:
                _answered_group(by_id[answer], answer, run_starts).take(index, answer)
        if row.calls:
            opened = _OpenGroup(index, row.calls, answered_by=[None] * len(row.calls))
            groups.append(opened)
            for call in dict.fromkeys(row.calls):
                by_id[call].appendleft(opened)
    return tuple(ToolGroup(g.call, g.calls, tuple(g.results), tuple(g.answered_by)) for g in groups)


def _answered_group(candidates: deque[_OpenGroup], answer: str, run_starts: int) -> _OpenGroup:
    """Choose among the groups with a call of that id, newest first; there is at least one."""
    if len(candidates) == 1:
        return candidates[0]
    near = [group for group in islice(candidates, _MOST_ALIKE) if group.call >= run_starts]
    choice = near or candidates
    return next((group for group in choice if group.waits_for(answer)), choice[0])


def is_system(row: Row) -> bool:
    return row.kind is Kind.MESSAGE and row.role in SYSTEM_ROLES


def is_kept_by_micro(row: Row) -> bool:
    """Return whether micro-compaction never absorbs `row`: a person wrote it, or it is system text
    or a marker."""
    return (
        row.kind.is_marker
        or is_system(row)
        or row.opens_turn
        or (row.role == "user" and row.origin is Origin.PERSON)
    )
