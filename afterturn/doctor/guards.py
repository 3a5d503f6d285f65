"""What holds compaction back: breakers of endpoints, and sessions that wait or fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterturn.doctor.finding import Finding
from afterturn.render.words import count, duration
from storage import endpoints, guards
from storage.endpoints import EndpointState
from storage.engine import Database
from storage.guards import GuardedSession, GuardName
from workers.policy.guards import MOST_POOR_PASSES
from workers.settings import CompressionSettings, Settings
from workers.summariser.endpoints import EndpointError, resolve_chain, route_name

BREAKER, SESSIONS = "breaker", "sessions"

_MOST = 10_000


def check_breakers(
    database: Database, settings: Settings, secrets: Mapping[str, str]
) -> list[Finding]:
    """A warning for each configured model whose breaker is open."""
    with database.read() as connection:
        states = endpoints.states(connection, database)
    wanted = _routes(settings, secrets)
    return [
        Finding.warn(
            BREAKER,
            _down(state),
            "see what the provider says; workers find out by themselves when it is back, "
            f"`afterturn guards clear --endpoint '{state.name}'` lets it be asked at once",
        )
        for state in states
        if state.is_open and (wanted is None or state.name in wanted)
    ]


def check_sessions(database: Database, settings: CompressionSettings) -> Finding:
    """How many sessions rest after a failure, are locked, or fail while nearly full."""
    names = (GuardName.COOLDOWN, GuardName.POOR_PASSES, GuardName.BATCH_FAILURES)
    with database.read() as connection:
        held = guards.holding(connection, database, names=names, limit=_MOST)
    told = _counts(held, settings)
    if not told:
        return Finding.ok(SESSIONS, "none rests after a failure, is locked or exhausted")
    return Finding.warn(
        SESSIONS,
        ", ".join(told),
        "`afterturn guards list --all-owners` shows which and until when, `afterturn explain "
        "SESSION` why",
    )


def _counts(held: Sequence[GuardedSession], settings: CompressionSettings) -> list[str]:
    resting = sum(one.name is GuardName.COOLDOWN and one.guard.left_ms > 0 for one in held)
    locked = sum(
        one.name is GuardName.POOR_PASSES
        and one.guard.count >= MOST_POOR_PASSES
        and one.guard.left_ms > 0
        for one in held
    )
    failing = [one.guard.count for one in held if one.name is GuardName.BATCH_FAILURES]
    exhausted = sum(times >= settings.exhausted_after for times in failing)
    told = (
        (resting, "in cooldown after a failure"),
        (locked, "locked after passes that hardly saved anything"),
        (len(failing) - exhausted, "nearly full while summaries fail"),
        (exhausted, "exhausted"),
    )
    return [f"{count(number, 'session')} {what}" for number, what in told if number]


def _down(state: EndpointState) -> str:
    why = f" ({state.error_class})" if state.error_class else ""
    again = (
        f"nobody asks it for {duration(state.open_for_ms)}"
        if state.open_for_ms
        else ("the next request finds out whether it is back")
    )
    return f"{state.name} is down after {count(state.failures, 'failure')}{why}; {again}"


def _routes(settings: Settings, secrets: Mapping[str, str]) -> frozenset[str] | None:
    """Names of the configured models, None where they cannot be told."""
    try:
        chain = resolve_chain(settings.auxiliary.compression, secrets)
    except EndpointError:
        return None
    return frozenset(route_name(one.model, one.base_url) for one in chain if one is not None)
