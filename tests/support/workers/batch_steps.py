"""Steps of batch passes that several tests take, on a workplace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from storage import endpoints
from storage.conversations.rows import Row
from storage.guards import GuardName
from storage.outcomes import Outcome
from tests.support.model.behaviours import Good, Status
from tests.support.model.server import ModelServer
from tests.support.sessions.gateways import rows_of
from tests.support.workers.workplace import SLACK_MS, Workplace
from workers.policy.triggers import RULES, Trigger
from workers.runtime.pass_context import PassResult
from workers.summariser.endpoints import route_name

SQLITE = pytest.mark.parametrize("lasting_database", ["sqlite"], indirect=True)

AUTOMATIC = [
    one for one in Trigger if not RULES[one].bypasses and one is not Trigger.REPLACE_PLACEHOLDER
]
BYPASSING = [one for one in Trigger if RULES[one].bypasses]

DOWN = Status(401)
"""Ends a job at its first attempt."""


def outcome(place: Workplace, trigger: Trigger, **options: Any) -> PassResult:
    """Ask for a pass and give what the first try of it comes to."""
    place.ask(trigger, **options)
    (one,) = place.work()
    return one


def fail(
    place: Workplace, model: ModelServer, trigger: Trigger = Trigger.AFTER_RESPONSE
) -> PassResult:
    """Let a job fail for good, and the model be well again afterwards."""
    model.always(DOWN)
    one = outcome(place, trigger)
    model.always(Good())
    return one


def compact(
    place: Workplace, trigger: Trigger = Trigger.AFTER_RESPONSE, **options: Any
) -> PassResult:
    """Have a pass made that succeeds at once."""
    done = outcome(place, trigger, **options)
    assert done.outcome is Outcome.COMPACTED
    return done


def until(place: Workplace, name: GuardName = GuardName.COOLDOWN) -> int:
    """Return when a guard ends, in milliseconds from now."""
    guard = place.guards().get(name)
    return guard.left_ms if guard else 0


def about(ms: int) -> Any:
    """Equal to a time that was `ms` from now a few statements ago."""
    return pytest.approx(ms - 5_000, abs=5_000 + SLACK_MS)


def markers(place: Workplace) -> list[Row]:
    """Return the live markers."""
    return [row for row in place.view() if row.kind.is_marker]


def positions(place: Workplace) -> list[int]:
    """Return where the live messages stand."""
    return [row.position for row in place.view() if not row.kind.is_marker]


def summaries(place: Workplace) -> list[tuple[Any, ...]]:
    """Kind and status of every summary, oldest first."""
    return rows_of(place.database, "SELECT kind, status FROM summaries ORDER BY id")


def prompts(model: ModelServer) -> list[str]:
    """Return what the model was asked, a text each."""
    return ["\n".join(m["content"] for m in one["messages"]) for one in model.requests]


def loud_signals(place: Workplace) -> list[str]:
    """Kinds of the signals that are not quiet."""
    return [one.kind.value for one in place.signals() if not one.quiet]


def open_breaker(place: Workplace) -> None:
    """Let nobody ask the model."""
    name = route_name("test-model", place.model_url)
    with place.now.write() as connection:
        found = endpoints.lock(connection, place.now, name)
        endpoints.write(
            connection,
            replace(found, failures=3, open_ms=30_000, open_until=found.now + 30_000),
        )
