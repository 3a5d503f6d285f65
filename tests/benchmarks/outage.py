"""What a gateway feels of a broker that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import ceil

from producers import Gateway, Session
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import DATABASES, Stage
from tests.benchmarks.timing import milliseconds
from tests.support.servers.servers import RedisServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import migrated
from workers.settings import Settings

MOST_MS = 50.0
MOST_ERRORS = 0.0


def turns_without_broker(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """`finalize_turn` of four messages after the broker was killed under an open connection."""
    for database in DATABASES:
        with stage.database(database) as url, RedisServer() as broker, migrated(url):
            settings = Settings(database_url=url, broker_url=broker.url)
            with Gateway(settings) as gateway:
                session = gateway.open_session("outage")
                for number in range(1 + scale.warm_up):
                    gateway.finalize_turn(session, turn(number))
                broker.kill()
                took, errors = _finish_turns(gateway, session, scale.outage)
        detail = f"{len(took)} turns"
        yield Figure(
            "finalize_turn with the broker killed, p99",
            database,
            sorted(took)[ceil(0.99 * len(took)) - 1],
            "ms",
            MOST_MS,
            f"{detail}, the longest {max(took):.1f} ms",
        )
        yield Figure(
            "finalize_turn with the broker killed, errors",
            database,
            errors,
            "errors",
            MOST_ERRORS,
            detail,
        )


def _finish_turns(gateway: Gateway, session: Session, turns: int) -> tuple[list[float], int]:
    """Return the milliseconds that each turn took, and how many of them failed."""
    took: list[float] = []
    errors = 0

    for number in range(turns):
        finish = partial(gateway.finalize_turn, session, turn(10_000 + number))
        try:
            took.append(milliseconds(finish))
        except Exception:  # noqa: BLE001 - whatever it is, a gateway would have to deal with it
            errors += 1
    return took, errors
