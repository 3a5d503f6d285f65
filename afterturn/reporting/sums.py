"""What the sessions of a report come to together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from afterturn.reporting.reading import SessionReport

STEP = 0.1
"""Width of a class of the occupancy distribution."""

_CLASSES = 11


@dataclass(frozen=True, slots=True)
class Sums:
    """Added up over sessions. `money_saved` is of those whose prices are known, None where none
    is; `priced` is how many those are."""

    sessions: int
    requests: int
    passes: int
    inline_passes: int
    batch_passes: int
    sent_with: int
    sent_without: int
    summarising_with: int
    summarising_without: int
    tokens_saved: int
    money_saved: float | None
    priced: int
    broke_even: int

    @property
    def passes_avoided(self) -> int:
        """Batch passes that inline agents would have made their users wait for, less those that
        were made here."""
        return self.inline_passes - self.batch_passes


def add_up(reports: Sequence[SessionReport]) -> Sums:
    """The sums over `reports`."""
    known = [one.money_saved for one in reports if one.money_saved is not None]
    courses = [one.course for one in reports]
    return Sums(
        sessions=len(reports),
        requests=sum(one.requests for one in courses),
        passes=sum(one.passes for one in courses),
        inline_passes=sum(one.inline_passes for one in courses),
        batch_passes=sum(one.batch_passes for one in courses),
        sent_with=sum(one.with_.prompt for one in courses),
        sent_without=sum(one.without.prompt for one in courses),
        summarising_with=sum(
            one.with_.summariser_read + one.with_.summariser_written for one in courses
        ),
        summarising_without=sum(
            one.without.summariser_read + one.without.summariser_written for one in courses
        ),
        tokens_saved=sum(one.tokens_saved for one in courses),
        money_saved=sum(known) if known else None,
        priced=len(known),
        broke_even=sum(one.break_even is not None for one in reports),
    )


def occupancies(reports: Iterable[SessionReport]) -> list[tuple[str, int]]:
    """How many sessions are how full now, in tenths of the threshold."""
    counts = Counter(min(_CLASSES - 1, int(one.occupancy / STEP)) for one in reports)
    names = [f"≤{10 * place + 10} %" for place in range(_CLASSES - 1)] + ["over"]
    return [(name, counts[place]) for place, name in enumerate(names)]


def passes_by_day(reports: Iterable[SessionReport], *, most: int) -> list[tuple[str, int]]:
    """Passes that changed a view by day (UTC), the last `most` days that had any."""
    days: Mapping[str, int] = Counter(
        f"{datetime.fromtimestamp(one.at / 1000, UTC):%Y-%m-%d}"
        for report in reports
        for one in report.passes
        if one.tokens_after != one.tokens_before
    )
    return [(day[5:], days[day]) for day in sorted(days)[-most:]]
