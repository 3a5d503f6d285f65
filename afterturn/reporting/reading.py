"""Read what a report is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from afterturn.reporting.course import Bounds, Course, Prices, follow
from producers.importing.placing import IMPORTED
from storage import history
from storage.conversations import imports, sessions
from storage.conversations.sessions import SessionRecord
from storage.history import PassFigures
from workers.policy.threshold import NoUsableWindowError, session_threshold
from workers.settings import Settings
from workers.settings.prices import price_of

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
    rows = history.rows(connection, session.key, imported=IMPORTED)
    passes = history.passes(connection, session.key)
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
    keys = history.most_saving(connection, owner=owner, limit=limit)
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
