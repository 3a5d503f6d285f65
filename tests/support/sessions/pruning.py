"""Rows with tool output for the rules of pruning, and what they make of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from storage.conversations.rows import Row
from tests.support.sessions.chat import assistant, result, user
from tests.support.sessions.strategies import ChatDict, rows_of
from workers.prune.plan import prune_rules
from workers.prune.rules import Shortened, shorten
from workers.settings import CompressionSettings

KEY = 7
"""The session's key in handles."""


def call(name: str, arguments: Mapping[str, Any] | str, identifier: str = "c") -> ChatDict:
    """Return an assistant row that makes one call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    function = {"name": name, "arguments": text}
    return assistant(
        None, tool_calls=[{"id": identifier, "type": "function", "function": function}]
    )


def asked(name: str, arguments: Mapping[str, Any] | str, output: Any) -> list[ChatDict]:
    """Return a call and its result."""
    return [call(name, arguments), result("c", output)]


def talk(*groups: Sequence[ChatDict]) -> list[Row]:
    """Return a request, tool groups, and a last group that nothing is done to, for it is the
    newest."""
    rows = [user("go"), *(row for group in groups for row in group)]
    return rows_of([*rows, *asked("look", {"at": "the end"}, "seen")])


def pruned(
    rows: Sequence[Row], old: Iterable[int] | None = None, **settings: Any
) -> dict[int, Shortened]:
    """Return the short forms of rows by their positions. By default every row is old."""
    given = {"proactive_prune_min_result_chars": 1000, **settings}
    rules = prune_rules(CompressionSettings(**given))
    indexes = frozenset(range(len(rows)) if old is None else old)
    found = shorten(rows, indexes, rules, session_key=KEY)
    return {one.row.position: one for one in found}


def note(rows: Sequence[Row], position: int, **settings: Any) -> str:
    """Return what stands in the place of the output at a position."""
    return str(pruned(rows, **settings)[position].message["content"])


def shown(rows: Sequence[Row], short: Mapping[int, Shortened]) -> list[Row]:
    """Return the view afterwards."""
    return [
        replace(
            row,
            message=short[row.position].message,
            tokens=short[row.position].tokens,
            pruned=True,
        )
        if row.position in short and not row.kind.is_marker
        else row
        for row in rows
    ]
