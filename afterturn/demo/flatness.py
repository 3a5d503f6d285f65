"""Whether memory has stopped growing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_GROWTH = 0.03
"""Growth over the last third that still counts as flat, as a share of the threshold. A tail of
whole tool groups and a summary that is rewritten now and then go up and down by about that."""


FEWEST_TURNS = 6
"""Turns of a play that is judged: with fewer, the last third is a single turn or none."""


@dataclass(frozen=True, slots=True)
class Flatness:
    """Growth of the live view over the last third of the turns, in shares of the threshold.

    `growth` is all of it, `unmanaged` what it would have been without compaction, `kept` what the
    user's own messages account for. `flat` is None where it cannot be told.
    """

    growth: float
    unmanaged: float
    kept: float
    flat: bool | None

    @property
    def beyond_kept(self) -> float:
        """Growth that the user's own messages do not account for."""
        return self.growth - self.kept


def judge_flatness(
    live: Sequence[int],
    unmanaged: Sequence[int],
    kept: Sequence[int],
    *,
    threshold: int,
    passes_before: int,
) -> Flatness:
    """Judge the last third of `live`, tokens of the live view after each turn.

    Growth is that of the line of least squares through those turns: first and last value alone
    would depend on where in its up and down the view just is. Users' messages stay word for word
    in the live view (ENGINE.md §7), so it cannot be flatter than they let it be: what they add by
    the same measure (`kept`: tokens of all user messages so far) is taken off before judging.
    The view is flat when the rest is at most `MOST_GROWTH`.

    Not judged (`flat` None) when there are fewer than `FEWEST_TURNS`, and when compaction
    has not begun before the last third (`passes_before`): until the conversation outgrows head
    and tail, nothing may be absorbed.
    """
    last = slice(len(live) - len(live) // 3, None)
    growth, without, users = (rise(line[last]) / threshold for line in (live, unmanaged, kept))
    long_enough = passes_before > 0 and len(live) >= FEWEST_TURNS
    flat = growth - users <= MOST_GROWTH if long_enough else None
    return Flatness(growth, without, users, flat)


def rise(values: Sequence[float]) -> float:
    """By how much the line of least squares through `values` rises from first to last."""
    n = len(values)
    if n < 2:
        return 0.0
    middle, mean = (n - 1) / 2, sum(values) / n
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / sum(
        (i - middle) ** 2 for i in range(n)
    )
    return slope * (n - 1)
