"""What a micro pass costs, the model left out, in a long session and in a short one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.benchmarks.desk import QUESTION, Desk, desk
from tests.benchmarks.disk import disk_size, summary_bytes
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import DATABASES, Stage
from tests.benchmarks.timing import Compared, Measured, by_turns

MOST_RATIO = 1.2
"""Of a pass in a long session to one in a short session."""

MOST_DECISION_RATIO = 1.5
MOST_FIRST_RATIO = 1.5
MOST_GROWTH_KIB = 16.0


def micro_passes(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Yield all figures of a pass. Each session has a database of its own, so that a statement that
    reads more than its session shows too."""
    for database in DATABASES:
        with _filled(stage, database, scale.long, scale) as long:
            with _filled(stage, database, scale.short, scale) as short:
                yield _first(long, short, database, scale)
                yield from _later(long, short, database, scale)
            yield _growth(long, database, scale)


@contextmanager
def _filled(stage: Stage, database: str, messages: int, scale: Scale) -> Iterator[Desk]:
    with (
        stage.database(database) as url,
        desk(url, QUESTION, context_window=scale.context_window) as opened,
    ):
        opened.fill(messages)
        yield opened


def _first(long: Desk, short: Desk, database: str, scale: Scale) -> Figure:
    """Return the first pass of sessions that were never compacted, taken back after each time."""
    (compared,) = by_turns(
        _first_pass(long), _first_pass(short), rounds=scale.rounds, warm_up=scale.warm_up
    )
    return _ratio(
        f"first micro pass over a backlog, {_sizes(scale)}", database, compared, MOST_FIRST_RATIO
    )


def _later(long: Desk, short: Desk, database: str, scale: Scale) -> Iterator[Figure]:
    """Yield the passes that further turns make due, once all old exchanges are absorbed."""
    long.work_off()
    short.work_off()
    decision, absorption = by_turns(
        _next_pass(long), _next_pass(short), rounds=scale.rounds, warm_up=scale.warm_up
    )
    yield _ratio(f"micro pass, {_sizes(scale)}", database, absorption, MOST_RATIO)
    yield Figure(f"micro pass at {scale.long:,} messages", database, absorption.first, "ms")
    yield _ratio(f"decision after a turn, {_sizes(scale)}", database, decision, MOST_DECISION_RATIO)


def _growth(long: Desk, database: str, scale: Scale) -> Figure:
    """Return what the database grows by per pass, without the text of the summaries."""
    for _ in range(2 * scale.growth_passes):
        long.next_turn()
    long.grow_until_due()
    size, text = disk_size(long.play.database), summary_bytes(long.play.database)
    passes = long.absorb_all()
    grown = disk_size(long.play.database) - size
    text = summary_bytes(long.play.database) - text
    return Figure(
        f"database growth per pass at {scale.long:,} messages",
        database,
        (grown - text) / passes / 1024,
        "KiB",
        MOST_GROWTH_KIB,
        f"{grown / 1024:.0f} KiB in {passes} passes, {text / 1024:.0f} KiB of them summaries",
    )


def _first_pass(desk: Desk) -> Measured:
    def measured() -> tuple[float]:
        desk.grow_until_due()
        return (desk.absorb_first(),)

    return measured


def _next_pass(desk: Desk) -> Measured:
    def measured() -> tuple[float, float]:
        return desk.grow_until_due(), desk.absorb()

    return measured


def _ratio(name: str, database: str, compared: Compared, most: float) -> Figure:
    return Figure(name, database, compared.ratio, "x", most, str(compared))


def _sizes(scale: Scale) -> str:
    return f"{scale.long:,} / {scale.short:,} messages"
