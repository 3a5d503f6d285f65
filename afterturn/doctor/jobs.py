"""Checks of jobs, paused queues and breakers, and of sessions whose compaction is suppressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterturn.doctor.finding import Finding
from afterturn.words import count, duration, moment
from storage import backlog, dead_jobs, endpoints, guards, queue_states
from storage.backlog import together
from storage.endpoints import EndpointState
from storage.engine import Database
from storage.guards import GuardName, HeldSession
from workers.compression_settings import CompressionSettings
from workers.endpoints import EndpointError, resolve_chain
from workers.holds import MOST_POOR_PASSES
from workers.routes import route_name
from workers.settings import Settings

JOBS, DEAD, PAUSED = "jobs", "dead jobs", "paused queues"

LONG_MS = 600_000
"""A job that has been due for longer has no worker, or too few: a lost notification is repeated
within half a minute, and a pass takes seconds."""


def check_jobs(database: Database) -> list[Finding]:
    """Check the jobs table: due jobs, dead ones, and paused queues."""
    return [_open(database), _dead(database), _paused(database)]


def _open(database: Database) -> Finding:
    with database.read() as connection:
        queues = backlog.by_queue(connection, database)
        paused = {queue.name for queue in queue_states.paused(connection)}
    found = together(queues.values())
    detail = f"{found.due} due, {found.waiting} waiting for their time, {found.running} running"
    # Jobs of a paused queue are reported with the pause.
    oldest = together(one for name, one in queues.items() if name not in paused).oldest_ms
    if oldest is None:
        return Finding.ok(JOBS, detail)
    detail += f"; the oldest has been due for {duration(oldest)}"
    if oldest <= LONG_MS:
        return Finding.ok(JOBS, detail)
    return Finding.warn(
        JOBS,
        detail,
        "start workers, or more of them: `afterturn up`, `afterturn worker`; "
        "`afterturn queues` shows where it waits",
    )


def _dead(database: Database) -> Finding:
    with database.read() as connection:
        reasons = dead_jobs.reasons(connection)
    if not reasons:
        return Finding.ok(DEAD, "none")
    number = sum(one.jobs for one in reasons)
    detail = count(number, "job") + f" given up, {reasons[0].jobs} of them for the reason "
    return Finding.warn(
        DEAD,
        f"{detail}{reasons[0].text!r}",
        "see `afterturn dead list` and `dead show JOB`, then `dead retry` or `dead drop` them; "
        "their sessions go on with the next turn",
    )


def _paused(database: Database) -> Finding:
    with database.read() as connection:
        paused = queue_states.paused(connection)
    if not paused:
        return Finding.ok(PAUSED, "none")
    listed = ", ".join(
        f"{one.name} since {moment(one.since)}" + (f" ({one.reason})" if one.reason else "")
        for one in paused
    )
    names = " ".join(one.name for one in paused)
    return Finding.warn(
        PAUSED, listed, f"`afterturn queues resume {names}` when they are to be worked again"
    )


BREAKER, SESSIONS = "breaker", "sessions"

_MOST = 10_000


def check_breakers(
    database: Database, settings: Settings, secrets: Mapping[str, str]
) -> list[Finding]:
    """Return a warning for each configured model whose breaker is open."""
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
    """Count the sessions that rest after a failure, are locked, or fail while nearly full."""
    names = (GuardName.COOLDOWN, GuardName.POOR_PASSES, GuardName.BATCH_FAILURES)
    with database.read() as connection:
        held = guards.holding(connection, database, names=names, limit=_MOST)
    counts = _counts(held, settings)
    if not counts:
        return Finding.ok(SESSIONS, "none rests after a failure, is locked or exhausted")
    return Finding.warn(
        SESSIONS,
        ", ".join(counts),
        "`afterturn guards list --all-owners` shows which and until when, `afterturn explain "
        "SESSION` why",
    )


def _counts(held: Sequence[HeldSession], settings: CompressionSettings) -> list[str]:
    resting = sum(one.name is GuardName.COOLDOWN and one.guard.left_ms > 0 for one in held)
    locked = sum(
        one.name is GuardName.POOR_PASSES
        and one.guard.count >= MOST_POOR_PASSES
        and one.guard.left_ms > 0
        for one in held
    )
    failing = [one.guard.count for one in held if one.name is GuardName.BATCH_FAILURES]
    exhausted = sum(times >= settings.exhausted_after for times in failing)
    found = (
        (resting, "in cooldown after a failure"),
        (locked, "locked after passes that hardly saved anything"),
        (len(failing) - exhausted, "nearly full while summaries fail"),
        (exhausted, "exhausted"),
    )
    return [f"{count(number, 'session')} {what}" for number, what in found if number]


def _down(state: EndpointState) -> str:
    why = f" ({state.error_class})" if state.error_class else ""
    again = (
        f"nobody asks it for {duration(state.open_for_ms)}"
        if state.open_for_ms
        else ("the next request finds out whether it is back")
    )
    return f"{state.name} is down after {count(state.failures, 'failure')}{why}; {again}"


def _routes(settings: Settings, secrets: Mapping[str, str]) -> frozenset[str] | None:
    """Return the names of the configured models, None where they are not known."""
    try:
        chain = resolve_chain(settings.auxiliary.compression, secrets)
    except EndpointError:
        return None
    return frozenset(route_name(one.model, one.base_url) for one in chain if one is not None)
