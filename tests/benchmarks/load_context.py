"""What loading the live view costs when many archived rows lie behind it."""

from __future__ import annotations

from collections.abc import Iterator

from producers import Session
from tests.benchmarks.desk import Desk, TurnShape, desk
from tests.benchmarks.disk import tidy
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import DATABASES, Stage
from tests.benchmarks.summariser import InstantSummariser
from tests.benchmarks.timing import Measured, by_turns, milliseconds
from tests.support.sessions.play import Play, playing

MOST_RATIO = 1.5


def loaded_contexts(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """`load_context` of a session that was compacted against a session that only ever had the
    messages of its view."""
    for database in DATABASES:
        with (
            stage.database(database) as url,
            stage.database(database) as twin_url,
            desk(url, _shape(scale), context_window=scale.context_window) as long,
            playing(twin_url, summariser=InstantSummariser()) as twin,
        ):
            long.fill(scale.long + long.shape.messages)
            long.work_off()
            archived = _archived(long)
            view = long.play.gateway.load_context(long.session)
            copy = twin.gateway.open_session("twin")
            twin.gateway.finalize_turn(copy, view.messages)
            tidy(twin.database)
            (compared,) = by_turns(
                _loading(long.play, long.session, len(view.messages)),
                _loading(twin, copy, len(view.messages)),
                rounds=scale.rounds,
                warm_up=scale.warm_up,
            )
        yield Figure(
            f"load_context, {scale.long:,} archived rows behind it / none",
            database,
            compared.ratio,
            "x",
            MOST_RATIO,
            f"{compared}; {archived:,} archived, {len(view.messages)} in view",
        )


def _shape(scale: Scale) -> TurnShape:
    """Turns so long that nearly all of a session can be archived: only requests stay."""
    return TurnShape(tools=max(1, scale.long // 100), words=60)


def _archived(long: Desk) -> int:
    found = long.play.rows("SELECT count(*) FROM messages WHERE compacted = 1")
    return int(found[0][0])


def _loading(play: Play, session: Session, expected: int) -> Measured:
    def measured() -> tuple[float]:
        loaded: list[int] = []
        took = milliseconds(lambda: loaded.append(len(play.gateway.load_context(session).messages)))
        assert loaded == [expected], f"{loaded} messages instead of {expected}"
        return (took,)

    return measured
