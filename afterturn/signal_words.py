"""What signals tell, for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from afterturn.terms import trigger_name
from afterturn.words import count, moment, number
from storage.signals import Signal, SignalKind

Facts: TypeAlias = Mapping[str, Any]


def signal_sentence(signal: Signal) -> str:
    """What a signal tells, with its figures and without a full stop."""
    return _SAYS[signal.kind](signal.facts)


def change(facts: Facts) -> str:
    """How a live view changed, from a signal's facts or an attempt's figures."""
    messages = f"{number(facts.get('messages_before'))} → {number(facts.get('messages_after'))}"
    tokens = f"{number(facts.get('tokens_before'))} → {number(facts.get('tokens_after'))}"
    return f"{messages} messages, {tokens} tokens"


def _error(facts: Facts) -> str:
    return f"({facts.get('error', 'unknown')})"


def _sentence(facts: Facts) -> str:
    return f"{change(facts)}. {facts.get('sentence', '')}".rstrip(" .")


_SAYS: Mapping[SignalKind, Callable[[Facts], str]] = MappingProxyType(
    {
        SignalKind.STARTED: lambda facts: (
            f"compaction begins ({trigger_name(str(facts.get('trigger', 'unknown')))})"
        ),
        SignalKind.FINISHED: lambda facts: f"compacted: {change(facts)}",
        SignalKind.FAILED: lambda facts: f"no summary could be had {_error(facts)}",
        SignalKind.COOLDOWN: lambda facts: (
            f"automatic passes rest until {moment(facts.get('until'))} {_error(facts)}"
        ),
        SignalKind.PLACEHOLDER: lambda facts: f"a placeholder stands in: {change(facts)}",
        SignalKind.HEALED: lambda facts: f"a summary took the placeholder's place: {change(facts)}",
        SignalKind.STUCK: lambda facts: f"cannot be made smaller: {_sentence(facts)}",
        SignalKind.EXHAUSTED: lambda facts: (
            f"{count(int(facts.get('failures', 0)), 'batch job')} in a row failed, "
            "with the window nearly full"
        ),
        SignalKind.RESET: lambda facts: f"reset: {_sentence(facts)}",
        SignalKind.COMPACT_THREAD: lambda facts: (
            f"the gateway is to have Codex compact: {number(facts.get('prompt_tokens'))} tokens "
            f"in turn {number(facts.get('turn'))}"
        ),
    }
)
