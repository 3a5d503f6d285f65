"""Entries of the audit trail in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from afterturn.terms import outcome_name, trigger_name
from afterturn.words import count, number
from storage.audit import AuditAction, Entry

Facts = Mapping[str, Any]


def audit_sentence(entry: Entry) -> str:
    """What was done, in words; an act of a newer version by its own name and facts."""
    words = _SENTENCES.get(entry.action)
    return f"{entry.action} {dict(entry.facts)}" if words is None else words(entry.facts)


def _changed(facts: Facts) -> str:
    outcome = outcome_name(str(facts.get("outcome", "")))
    sizes = f"{_number(facts, 'tokens_before')} → {_number(facts, 'tokens_after')} tokens"
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


def _number(facts: Facts, name: str) -> str:
    value = facts.get(name)
    return number(value if isinstance(value, int) else None)


def _names(facts: Facts, name: str) -> str:
    return ", ".join(map(str, facts.get(name, ())))


_SENTENCES: Mapping[str, Callable[[Facts], str]] = MappingProxyType(
    {
        AuditAction.COMPACTED: _changed,
        AuditAction.MICRO_COMPACTED: _changed,
        AuditAction.PRUNED: _changed,
        AuditAction.RESET: _changed,
        AuditAction.COMPACTION_ASKED: _asked,
        AuditAction.UNDONE: lambda facts: (
            f"took back summary {facts.get('summary_id')} ({facts.get('kind')}); "
            f"{_number(facts, 'rows_restored')} rows came back"
        ),
        AuditAction.REWOUND: lambda facts: (
            f"took back {_number(facts, 'rows')} rows from position {facts.get('cut')} on"
        ),
        AuditAction.UNPRUNED: lambda facts: (
            f"showed {_number(facts, 'messages')} messages in full again, "
            f"{_number(facts, 'tokens')} tokens"
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
            f"read across owners ({facts.get('what', 'search')}): {_number(facts, 'found')} found"
        ),
        AuditAction.DELETED: _deleted,
        AuditAction.IMPORTED: lambda facts: (
            f"imported {_number(facts, 'rows')} messages, {_number(facts, 'summaries')} summaries"
        ),
        AuditAction.BULK_STARTED: _bulk("began"),
        AuditAction.BULK_STOPPED: _bulk("stopped"),
        AuditAction.BULK_RESUMED: _bulk("resumed"),
        AuditAction.BULK_ENDED: _bulk("ended"),
    }
)
