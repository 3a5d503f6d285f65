"""Guards, breakers, signals and audit entries in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from afterturn.render.terms import outcome_name, trigger_name
from afterturn.render.words import count, duration, moment, number, until
from storage.audit import AuditAction, Entry
from storage.endpoints import EndpointState
from storage.guards import GuardName, GuardRecord
from storage.signals import Signal, SignalKind
from workers.policy.guards import MOST_POOR_PASSES

Facts: TypeAlias = Mapping[str, Any]

SUPPRESSING = (
    GuardName.COOLDOWN,
    GuardName.POOR_PASSES,
    GuardName.NOTHING_TO_COMPACT,
    GuardName.NOT_SMALLER,
    GuardName.UNDONE,
    GuardName.BATCH_FAILURES,
    GuardName.MICRO_FAILURES,
    GuardName.ENDPOINT_FAILURES,
)
"""Guards that suppress passes, or count towards it; the others only remember something."""


def guard_sentence(name: GuardName, guard: GuardRecord) -> str:
    """Return what a guard says about its session, without a full stop."""
    return _GUARDS[name](guard)


def guard_end(name: GuardName, guard: GuardRecord) -> str:
    """Return when a guard ends by itself: a time, or what has to happen."""
    if guard.until_at is not None:
        if guard.is_over:
            return "over"
        return until(guard.until_at, guard.until_at - guard.left_ms)
    return _GUARD_ENDS.get(name, "until it is cleared")


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


_GUARDS: Mapping[GuardName, Callable[[GuardRecord], str]] = MappingProxyType(
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
            f"old tool output is checked again from {_subject(guard)} tokens on"
        ),
        GuardName.INPUT_ROOM: lambda guard: (
            f"one request holds {_subject(guard)} characters of messages: more were too long"
        ),
    }
)

_GUARD_ENDS: Mapping[GuardName, str] = MappingProxyType(
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


def breaker_words(state: EndpointState) -> str:
    """Return whether an endpoint may be asked, and when again."""
    if not state.is_open:
        return "closed, one request is out" if state.probing else "closed"
    if state.probing:
        return "open, a probe is out"
    if not state.open_for_ms:
        return "open, the next request probes"
    return f"open for {duration(state.open_for_ms)}"


def signal_sentence(signal: Signal) -> str:
    """Return what a signal reports, with its figures and without a full stop."""
    return _SIGNALS[signal.kind](signal.facts)


def change(facts: Facts) -> str:
    """Return how a live view changed, from a signal's facts or an attempt's figures."""
    messages = f"{number(facts.get('messages_before'))} → {number(facts.get('messages_after'))}"
    tokens = f"{number(facts.get('tokens_before'))} → {number(facts.get('tokens_after'))}"
    return f"{messages} messages, {tokens} tokens"


def _error_of(facts: Facts) -> str:
    return f"({facts.get('error', 'unknown')})"


def _change_and_sentence(facts: Facts) -> str:
    return f"{change(facts)}. {facts.get('sentence', '')}".rstrip(" .")


_SIGNALS: Mapping[SignalKind, Callable[[Facts], str]] = MappingProxyType(
    {
        SignalKind.STARTED: lambda facts: (
            f"compaction begins ({trigger_name(str(facts.get('trigger', 'unknown')))})"
        ),
        SignalKind.FINISHED: lambda facts: f"compacted: {change(facts)}",
        SignalKind.FAILED: lambda facts: f"no summary could be had {_error_of(facts)}",
        SignalKind.COOLDOWN: lambda facts: (
            f"automatic passes rest until {moment(facts.get('until'))} {_error_of(facts)}"
        ),
        SignalKind.PLACEHOLDER: lambda facts: f"a placeholder stands in: {change(facts)}",
        SignalKind.PLACEHOLDER_REPLACED: lambda facts: (
            f"a summary took the placeholder's place: {change(facts)}"
        ),
        SignalKind.STUCK: lambda facts: f"cannot be made smaller: {_change_and_sentence(facts)}",
        SignalKind.EXHAUSTED: lambda facts: (
            f"{count(int(facts.get('failures', 0)), 'batch job')} in a row failed, "
            "with the window nearly full"
        ),
        SignalKind.RESET: lambda facts: f"reset: {_change_and_sentence(facts)}",
        SignalKind.COMPACT_THREAD: lambda facts: (
            f"the gateway is to have Codex compact: {number(facts.get('prompt_tokens'))} tokens "
            f"in turn {number(facts.get('turn'))}"
        ),
    }
)


def audit_sentence(entry: Entry) -> str:
    """Return what was done, in words; an act of a newer version by its own name and facts."""
    words = _ACTS.get(entry.action)
    return f"{entry.action} {dict(entry.facts)}" if words is None else words(entry.facts)


def _changed(facts: Facts) -> str:
    outcome = outcome_name(str(facts.get("outcome", "")))
    sizes = f"{_figure(facts, 'tokens_before')} → {_figure(facts, 'tokens_after')} tokens"
    model = f", by {facts['model']}" if facts.get("model") else ""
    summary = f", summary {facts['summary']}" if facts.get("summary") else ""
    return f"{outcome}: {sizes}{summary}{model}; {trigger_name(str(facts.get('trigger', '')))}"


def _asked(facts: Facts) -> str:
    more = {name: of for name, of in facts.items() if name != "focused" and of is not None}
    words = [f"{name.replace('_', ' ')} {of}" for name, of in more.items()]
    words += ["with a topic"] if facts.get("focused") else []
    return "asked for compaction" + (f" ({', '.join(words)})" if words else "")


def _bulk(verb: str) -> Callable[[Facts], str]:
    def words(facts: Facts) -> str:
        settled = facts.get("settled")
        done = "" if settled is None else f"; {number(settled)} settled"
        return (
            f"{verb} bulk run {facts.get('run')} over "
            f"{count(int(facts.get('sessions', 0)), 'session')}{done}"
        )

    return words


def _deleted(facts: Facts) -> str:
    return "gave up " + ", ".join(f"{number(many)} {kind}" for kind, many in facts.items())


def _figure(facts: Facts, name: str) -> str:
    value = facts.get(name)
    return number(value if isinstance(value, int) else None)


def _names(facts: Facts, name: str) -> str:
    return ", ".join(map(str, facts.get(name, ())))


_ACTS: Mapping[str, Callable[[Facts], str]] = MappingProxyType(
    {
        AuditAction.COMPACTED: _changed,
        AuditAction.MICRO_COMPACTED: _changed,
        AuditAction.PRUNED: _changed,
        AuditAction.RESET: _changed,
        AuditAction.COMPACTION_ASKED: _asked,
        AuditAction.UNDONE: lambda facts: (
            f"took back summary {facts.get('summary_id')} ({facts.get('kind')}); "
            f"{_figure(facts, 'rows_restored')} rows came back"
        ),
        AuditAction.REWOUND: lambda facts: (
            f"took back {_figure(facts, 'rows')} rows from position {facts.get('cut')} on"
        ),
        AuditAction.UNPRUNED: lambda facts: (
            f"showed {_figure(facts, 'messages')} messages in full again, "
            f"{_figure(facts, 'tokens')} tokens"
        ),
        AuditAction.GUARD_CLEARED: lambda facts: f"cleared {_names(facts, 'guards')}",
        AuditAction.BREAKER_CLOSED: lambda facts: f"closed the breaker of {facts.get('endpoint')}",
        AuditAction.JOB_DROPPED: lambda facts: (
            f"dropped dead job {facts.get('job')} ({facts.get('kind')}: {facts.get('reason')})"
        ),
        AuditAction.JOB_RETRIED: lambda facts: (
            f"retried dead job {facts.get('job')} ({facts.get('kind')}: {facts.get('reason')})"
        ),
        AuditAction.QUEUE_PAUSED: lambda facts: f"paused {_names(facts, 'queues')}",
        AuditAction.QUEUE_RESUMED: lambda facts: f"resumed {_names(facts, 'queues')}",
        AuditAction.SEARCHED_ACROSS_OWNERS: lambda facts: (
            f"read across owners ({facts.get('what', 'search')}): {_figure(facts, 'found')} found"
        ),
        AuditAction.DELETED: _deleted,
        AuditAction.IMPORTED: lambda facts: (
            f"imported {_figure(facts, 'rows')} messages, {_figure(facts, 'summaries')} summaries"
        ),
        AuditAction.BULK_STARTED: _bulk("began"),
        AuditAction.BULK_STOPPED: _bulk("stopped"),
        AuditAction.BULK_RESUMED: _bulk("resumed"),
        AuditAction.BULK_ENDED: _bulk("ended"),
    }
)
