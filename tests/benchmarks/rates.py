"""How fast the rules are that look at every character or row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from statistics import median

from storage.conversations.rows import Row
from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import Stage
from tests.benchmarks.timing import milliseconds
from tests.support.sessions.conversations import turn
from tests.support.sessions.strategies import rows_of
from workers.conversation.tokens import estimate_text
from workers.redaction import redact
from workers.rendering import Dialect, render

_ROWS = 1_000
_CHINESE = "订单已经确认，两位乘客的行程改到下周三，费用从原来的信用卡退回。" * 20


def rates(_stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Estimates and redactions in megabytes of UTF-8 a second, rendering in milliseconds."""
    messages = [message for number in range(_ROWS // 4) for message in turn(number)]
    lines = [json.dumps(message) for message in messages]
    for name, texts, act in (
        ("token estimate, English and JSON", lines, estimate_text),
        ("token estimate, Chinese", [_CHINESE] * 200, estimate_text),
        ("redaction, English and JSON", lines, redact),
    ):
        yield _speed(name, texts, act, scale)
    rows = rows_of(messages)
    for dialect in Dialect:
        yield _rendering(rows, dialect, scale)


def _speed(name: str, texts: list[str], act: Callable[[str], object], scale: Scale) -> Figure:
    size = sum(len(text.encode()) for text in texts)
    took = median(milliseconds(lambda: [act(text) for text in texts]) for _ in range(scale.repeats))
    return Figure(name, "", size / 1000 / took, "MB/s", None, f"{size / 1e6:.1f} MB")


def _rendering(rows: list[Row], dialect: Dialect, scale: Scale) -> Figure:
    took = median(milliseconds(lambda: render(rows, dialect)) for _ in range(scale.repeats))
    return Figure(f"rendering {len(rows):,} rows, {dialect}", "", took, "ms")
