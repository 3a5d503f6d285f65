"""The figures of a report: read per session, added up over many, and written for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from afterturn.report.course import Bounds, Course, Prices, follow
from afterturn.words import number
from producers.importing.placing import IMPORTED
from storage import imports, ledger, sessions
from storage.ledger import PassFigures
from storage.sessions import SessionRecord
from workers.limits import session_threshold
from workers.prices import price_of
from workers.settings import Settings
from workers.threshold import NoUsableWindowError

HEAD_ROWS = 4
"""The first request and the messages behind it that stay (`protect_first_n`), for an estimate."""

FREE = "local"
"""The built-in summariser costs nothing."""


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A session and its course."""

    session: SessionRecord
    course: Course
    passes: tuple[PassFigures, ...]
    prices: Prices

    @property
    def tokens_saved(self) -> int:
        return self.course.tokens_saved

    @property
    def money_saved(self) -> float | None:
        return self.course.money_saved(self.prices)

    @property
    def break_even(self) -> int | None:
        return self.course.break_even_pass(self.prices)

    @property
    def occupancy(self) -> float:
        """Live tokens now as a share of the threshold."""
        return self.session.live_tokens / self.course.threshold if self.course.threshold else 0.0


def read_session(
    connection: Connection, session: SessionRecord, settings: Settings
) -> SessionReport:
    """Follow one session. Reads its messages' figures, not their text."""
    rows = ledger.rows(connection, session.key, imported=IMPORTED)
    passes = ledger.passes(connection, session.key)
    record = imports.find(connection, session.key)
    try:
        threshold = session_threshold(session, settings.compression).tokens
    except NoUsableWindowError:
        threshold = 0
    tail = int(threshold * settings.compression.target_ratio)
    bounds = Bounds(
        threshold=threshold,
        head=min(tail, sum(row.tokens for row in rows[:HEAD_ROWS])),
        tail=tail,
    )
    course = follow(
        rows,
        passes,
        bounds,
        imported_rows=record.rows if record is not None else 0,
        live_tokens=session.live_tokens,
    )
    return SessionReport(session, course, tuple(passes), _prices(session, passes, settings))


def read_many(
    connection: Connection, settings: Settings, *, owner: str | None, limit: int
) -> list[SessionReport]:
    """Follow the sessions that had a pass, those that saved most, at most `limit`."""
    keys = ledger.most_saving(connection, owner=owner, limit=limit)
    found = sessions.fetch_many(connection, keys)
    return [read_session(connection, found[key], settings) for key in keys if key in found]


def _prices(session: SessionRecord, passes: Sequence[PassFigures], settings: Settings) -> Prices:
    models = [one.model for one in passes if one.prompt_tokens or one.completion_tokens]
    name = models[-1] if models else settings.auxiliary.compression.model or FREE
    main = price_of(settings.prices, session.model) if session.model else None
    summariser = price_of(settings.prices, name)
    if summariser is None and not models and name == FREE:
        # An inline agent has its own model summarise.
        summariser = main
    return Prices(main, summariser)


STEP = 0.1
"""Width of a class of the occupancy distribution."""

_CLASSES = 11


@dataclass(frozen=True, slots=True)
class Sums:
    """Totals over sessions. `money_saved` is of those whose prices are known, None where none
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
    """Add up `reports`."""
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
    """Count the sessions by how full they are now, in tenths of the threshold."""
    counts = Counter(min(_CLASSES - 1, int(one.occupancy / STEP)) for one in reports)
    names = [f"≤{10 * place + 10} %" for place in range(_CLASSES - 1)] + ["over"]
    return [(name, counts[place]) for place, name in enumerate(names)]


def passes_by_day(reports: Iterable[SessionReport], *, most: int) -> list[tuple[str, int]]:
    """Count the passes that changed a view by day (UTC), for the last `most` days that had any."""
    days: Mapping[str, int] = Counter(
        f"{datetime.fromtimestamp(one.at / 1000, UTC):%Y-%m-%d}"
        for report in reports
        for one in report.passes
        if one.tokens_after != one.tokens_before
    )
    return [(day[5:], days[day]) for day in sorted(days)[-most:]]


def short(value: float) -> str:
    """Write a figure short: `950`, `12.3k`, `4.56M`."""
    size = abs(value)
    if size >= 999_500:
        return f"{value / 1_000_000:,.2f}M"
    if size >= 1_000:
        return f"{value / 1_000:,.1f}k" if size < 99_950 else f"{value / 1_000:,.0f}k"
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """Write a share in whole percent."""
    return f"{100 * value:,.0f} %"


def amount(value: float | None, currency: str) -> str:
    """Write an amount of money; `unknown` without one, since an unknown price is not zero."""
    if value is None:
        return "unknown"
    digits = 2 if abs(value) >= 1 or value == 0 else 4
    return f"{value:,.{digits}f} {currency}"


def break_even(passes: int | None) -> str:
    """Write with which pass a session had won back what passes cost."""
    if passes is None:
        return "not yet"
    return "at once" if passes == 0 else f"pass {number(passes)}"
