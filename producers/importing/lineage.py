"""From the generations of rows in Hermes Agent's table to each original once.

A compaction there writes the whole live view anew and marks what was there before as archived, so
a message that stays live for k compactions stands there k + 1 times, once live (REFERENCE §1.6).
Rows that a user took back are neither live nor archived, and so are, in newer versions, originals
of which a live copy exists.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from producers.importing.account import Fate
from producers.importing.hermes_rows import at_ms, chat_message
from producers.importing.source import SourceRow, SourceSummary, State
from producers.importing.summaries import Shown, shown_summary
from storage.rows import Origin


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a session's rows come to. `left_out` counts the others by their fate."""

    rows: tuple[SourceRow, ...]
    summaries: tuple[SourceSummary, ...]
    left_out: Mapping[str, int]


@dataclass(slots=True)
class _Original:
    number: int
    message: Mapping[str, Any]
    at: int | None
    live: bool = False
    archived: bool = False
    copies: int = 0
    origin: Origin | None = None

    @property
    def rewound(self) -> bool:
        return not self.live and not self.archived


def trace(rows: Sequence[Mapping[str, Any]]) -> Lineage:
    """Read a session's rows, in order of their ids. Rows without flags are live, as exports hold
    only such."""
    originals: dict[str, _Original] = {}
    by_time: dict[tuple[Any, Any], _Original] = {}
    shown: list[tuple[int, Shown]] = []
    left: Counter[str] = Counter()
    for row in rows:
        message = chat_message(row)
        live, archived = _flag(row, "active", 1), _flag(row, "compacted", 0)
        summary = shown_summary(message["content"]) if message["role"] != "system" else None
        number = row.get("id")
        number = number if isinstance(number, int) else len(originals) + len(shown)
        moment = (message["role"], row.get("timestamp"))
        if summary is not None:
            if not live:
                left[Fate.OLD_SUMMARY] += 1
                continue
            if not summary.merged:
                shown.append((number, summary))
                continue
            host = by_time.get(moment) if row.get("timestamp") is not None else None
            if host is not None:
                # The row into which it was written is stored unmixed.
                host.live = True
                shown.append((number, summary))
                continue
        original = originals.get(key := _identity(message, row))
        if original is None:
            original = _Original(number, message, at_ms(row.get("timestamp")))
            if summary is not None:
                # Nobody knows its request any more, and no person wrote the whole of it.
                original.origin = Origin.RUNTIME if message["role"] == "user" else None
            originals[key] = original
            by_time.setdefault(moment, original)
        else:
            original.copies += 1
        original.live |= live
        original.archived |= not live and archived
    return _lineage(list(originals.values()), shown, left)


def _lineage(
    originals: Sequence[_Original], shown: Sequence[tuple[int, Shown]], left: Counter[str]
) -> Lineage:
    left[Fate.COPY] += sum(one.copies for one in originals)
    left[Fate.REWOUND] += sum(one.rewound for one in originals)
    kept = sorted((one for one in originals if not one.rewound), key=lambda one: one.number)
    rows = tuple(
        SourceRow(
            number=one.number,
            message=one.message,
            state=State.LIVE if one.live else State.ARCHIVED,
            origin=one.origin,
            at=one.at,
        )
        for one in kept
    )
    return Lineage(rows, _placed(rows, shown), {name: many for name, many in left.items() if many})


def _placed(
    rows: Sequence[SourceRow], shown: Sequence[tuple[int, Shown]]
) -> tuple[SourceSummary, ...]:
    """Behind the last row that they cover, else where they stand."""
    archived = [place for place, row in enumerate(rows) if row.state is State.ARCHIVED]
    return tuple(
        SourceSummary(
            one.text,
            archived[-1] + 1 if archived else sum(row.number < number for row in rows),
        )
        for number, one in shown
    )


def _identity(message: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """What copies of a message have in common: the text of tool rows and of calls may have been
    shortened in later ones."""
    moment = row.get("timestamp")
    calls = message.get("tool_calls")
    ids = calls
    if isinstance(calls, list):
        ids = [call.get("id") for call in calls if isinstance(call, dict)]
    told = message["content"]
    if moment is not None and message["role"] == "tool" and message.get("tool_call_id"):
        told = None
    if moment is None:
        # Without a time nothing tells a copy from a repetition.
        return f"#{row.get('id')}/{id(row)}"
    return json.dumps([message["role"], moment, message.get("tool_call_id"), ids, told])


def _flag(row: Mapping[str, Any], name: str, default: int) -> bool:
    value = row.get(name)
    return bool(default if value is None else value)
