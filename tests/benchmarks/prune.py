"""What pruning frees of real sessions, and what its rules cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from statistics import median
from typing import Any

from storage.conversations.rows import Row
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import Stage
from tests.support.sessions.conversations import real_sessions
from tests.support.sessions.strategies import ChatDict, rows_of
from workers.conversation.regions import RegionRules
from workers.conversation.transcript import tool_groups
from workers.policy.triggers import RULES, Trigger
from workers.prune.plan import old_rows, prune_rules
from workers.prune.rules import Shortened, shorten
from workers.settings import CompressionSettings

FILES = ("swe_agent", "openhands")
SIZES = (8_000, 2_000)
"""Settings of `proactive_prune_min_result_chars`: the default, and a smaller one."""

MOST_MS = 150
"""Of the rules alone, for 2,000 tool results."""


def pruning(_stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Yield the share that a pass frees of a session at its threshold, and the time of the
    rules."""
    for name in FILES:
        rows = rows_of([one for _, said in real_sessions(name) for one in said])
        for size in SIZES:
            yield _share(name, rows, size)
    for size in SIZES:
        yield _rules_time(scale, size)


def _share(name: str, rows: Sequence[Row], size: int) -> Figure:
    settings = CompressionSettings(proactive_prune_min_result_chars=size)
    live = sum(row.tokens for row in rows)
    found = _shortened(rows, settings, threshold=live)
    freed = sum(one.spared for one in found)
    outputs = sum(row.tokens for row in rows if row.answers)
    gate = settings.proactive_prune_min_reclaim_tokens
    done = "" if freed >= gate else f"; below {gate:,}, so an automatic pass leaves it alone"
    return Figure(
        f"freed of {name} as one session, results above {size:,} characters",
        "none",
        100 * freed / live,
        "%",
        detail=f"{freed:,} of {live:,} tokens in {len(found)} messages; tool output is "
        f"{outputs / live:.1%} of it{done}",
    )


def _rules_time(scale: Scale, size: int) -> Figure:
    rows = rows_of(list(_tool_talk(scale.batch)))
    settings = CompressionSettings(proactive_prune_min_result_chars=size)
    live = sum(row.tokens for row in rows)
    made: list[int] = []
    times: list[float] = []
    for _ in range(scale.repeats + scale.warm_up):
        # The time of this process alone: the rules wait for nothing.
        began = time.process_time()
        made.append(len(_shortened(rows, settings, threshold=live)))
        times.append(1000 * (time.process_time() - began))
    characters = sum(
        len(str(row.message["content"])) for row in rows if row.answers and row.message
    )
    return Figure(
        f"rules of a pruning pass, {scale.batch:,} tool results, shortened above {size:,}",
        "none",
        median(times[scale.warm_up :]),
        "ms",
        MOST_MS,
        f"{characters:,} characters of output, {made[0]} messages shortened",
    )


def _shortened(
    rows: Sequence[Row], settings: CompressionSettings, *, threshold: int
) -> tuple[Shortened, ...]:
    """Return what a pass makes of a session whose threshold is `threshold` tokens."""
    regions = RegionRules(
        protect_first_n=settings.protect_first_n,
        protect_last_n=settings.protect_last_n,
        min_tail_user_messages=settings.min_tail_user_messages,
        tail_budget=int(threshold * settings.target_ratio),
    )
    groups = tool_groups(rows)
    rules = RULES[Trigger.AFTER_RESPONSE]
    old = old_rows(rows, regions, rules, turn_open=False, groups=groups)
    return shorten(rows, old, prune_rules(settings), session_key=1, groups=groups)


def _tool_talk(results: int) -> Iterator[ChatDict]:
    """Yield a session of that many tool results, of the sizes and kinds that real ones have."""
    pairs = [pair for name in FILES for _, said in real_sessions(name) for pair in _pairs(said)]
    for number, (name, arguments, output) in enumerate(islice(cycle(pairs), results)):
        if number % 20 == 0:
            yield {"role": "user", "content": f"Request {number}."}
        function = {"name": name, "arguments": arguments}
        call = {"id": f"c{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        # Numbered, or all of them would be copies of a few.
        text = f"{number}\n{output}"
        yield {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def _pairs(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(tool, arguments, output) of the calls of a session that has one result to each."""
    made: dict[str, dict[str, Any]] = {}
    for message in messages:
        made.update({call["id"]: call["function"] for call in message.get("tool_calls") or ()})
        call = made.get(message.get("tool_call_id") or "")
        if call is not None and isinstance(message["content"], str):
            yield call["name"], call["arguments"], message["content"]
