"""What guards say, and when they end, for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from afterturn.words import count, number, until
from storage.guards import GuardName, GuardRecord
from workers.holds import MOST_POOR_PASSES

HOLDING = (
    GuardName.COOLDOWN,
    GuardName.POOR_PASSES,
    GuardName.NOTHING_TO_COMPACT,
    GuardName.NOT_SMALLER,
    GuardName.UNDONE,
    GuardName.BATCH_FAILURES,
    GuardName.MICRO_FAILURES,
    GuardName.ENDPOINT_FAILURES,
)
"""Guards that hold passes back, or count towards it; the others only remember something."""


def is_over(guard: GuardRecord) -> bool:
    """Whether the time is over for which a guard holds."""
    return guard.until_at is not None and not guard.left_ms


def guard_sentence(name: GuardName, guard: GuardRecord) -> str:
    """What a guard says of its session, without a full stop."""
    return _SAYS[name](guard)


def guard_end(name: GuardName, guard: GuardRecord) -> str:
    """When a guard ends by itself: a moment, or what has to happen."""
    if guard.until_at is not None:
        if is_over(guard):
            return "over"
        return until(guard.until_at, guard.until_at - guard.left_ms)
    return _ENDS.get(name, "until it is cleared")


def _cooldown(guard: GuardRecord) -> str:
    return f"automatic passes rest after a failure{_why(guard)}"


def _poor_passes(guard: GuardRecord) -> str:
    if guard.count < MOST_POOR_PASSES:
        return "the last pass hardly saved anything; another one locks automatic ones"
    return f"the last {guard.count} passes hardly saved anything: automatic ones are locked"


def _passes_of_turn(guard: GuardRecord) -> str:
    asked = count(guard.count, "pass", "passes")
    return f"{asked} asked for before requests after turn {_subject(guard)}{_why(guard)}"


def _subject(guard: GuardRecord) -> str:
    return number(guard.subject)


def _why(guard: GuardRecord) -> str:
    return f" ({guard.detail})" if guard.detail else ""


_SAYS: Mapping[GuardName, Callable[[GuardRecord], str]] = MappingProxyType(
    {
        GuardName.COOLDOWN: _cooldown,
        GuardName.POOR_PASSES: _poor_passes,
        GuardName.NOTHING_TO_COMPACT: lambda guard: f"nothing to compact{_why(guard)}",
        GuardName.NOT_SMALLER: lambda guard: (
            f"at {number(guard.count)} tokens a summary would not have been smaller"
        ),
        GuardName.UNDONE: lambda guard: (
            f"a compaction was undone after turn {_subject(guard)}: automatic passes wait"
        ),
        GuardName.BATCH_FAILURES: lambda guard: (
            f"{count(guard.count, 'batch job')} in a row failed with the window nearly full"
        ),
        GuardName.MICRO_FAILURES: lambda guard: (
            f"the exchange at position {_subject(guard)} was answered badly "
            f"{count(guard.count, 'time')}"
        ),
        GuardName.ENDPOINT_FAILURES: lambda guard: (
            f"the summariser could not be used {count(guard.count, 'time')} in a row"
        ),
        GuardName.DEFRAG_MARK: lambda guard: (
            f"the rolling summary is rewritten from {_subject(guard)} tokens on"
        ),
        GuardName.PASSES_OF_TURN: _passes_of_turn,
        GuardName.ENGINE_REQUEST: lambda guard: (
            f"a plugin asked for a pass after turn {_subject(guard)}"
        ),
        GuardName.THREAD_SIGNAL: lambda guard: (
            f"the gateway was asked in turn {_subject(guard)} to have Codex compact"
        ),
        GuardName.PRUNE_MARK: lambda guard: (
            f"old tool output is looked at again from {_subject(guard)} tokens on"
        ),
        GuardName.INPUT_ROOM: lambda guard: (
            f"one request holds {_subject(guard)} characters of messages: more were too long"
        ),
    }
)

_ENDS: Mapping[GuardName, str] = MappingProxyType(
    {
        GuardName.POOR_PASSES: "until a pass saves more",
        GuardName.NOTHING_TO_COMPACT: "until the session changes",
        GuardName.NOT_SMALLER: "until the session grows",
        GuardName.UNDONE: "until the next turn",
        GuardName.BATCH_FAILURES: "until a pass succeeds",
        GuardName.MICRO_FAILURES: "until a pass succeeds",
        GuardName.ENDPOINT_FAILURES: "until it answers",
        GuardName.DEFRAG_MARK: "until the next batch pass",
        GuardName.PASSES_OF_TURN: "until the next turn",
        GuardName.ENGINE_REQUEST: "until the next turn",
        GuardName.THREAD_SIGNAL: "until the next turn",
        GuardName.PRUNE_MARK: "until the next batch pass",
        GuardName.INPUT_ROOM: "until the summariser changes",
    }
)
