"""Conversations made by rule, and the real ones of `tests/data`."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parents[2] / "data"
SESSION_FILES = ("tau_bench_airline", "tau_chain_long", "swe_agent", "openhands", "crosswoz_test")

_WORDS = (
    "The booking in question was made on the ninth of May and holds two passengers, of whom one "
    "has a gold membership; the payment went through with a certificate and a credit card, and "
    "the refund rules for that fare class say that a change is free until a day before departure. "
)


def turn(number: int, *, words: int = 120, tools: int = 1) -> list[dict[str, Any]]:
    """Return one turn of a made-up airline desk: a request, `tools` tool groups, an answer."""
    text = " ".join((_WORDS * 10).split()[:words])
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": f"Request {number}: please change booking B{number:04d}."}
    ]
    for tool in range(tools):
        identifier = f"call_{number}_{tool}"
        arguments = json.dumps({"booking": f"B{number:04d}", "step": tool})
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": identifier,
                        "type": "function",
                        "function": {"name": "change_booking", "arguments": arguments},
                    }
                ],
            },
            {
                "role": "tool",
                "tool_call_id": identifier,
                "name": "change_booking",
                "content": f"Result {number}.{tool}: {text}",
            },
        ]
    messages.append({"role": "assistant", "content": f"Done with B{number:04d}. {text}"})
    return messages


def real_sessions(name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield (id, messages) of every session of a data file."""
    for line in data_lines(name):
        session = json.loads(line)
        yield session["id"], session["messages"]


def data_lines(name: str) -> Iterator[str]:
    """Yield the lines of a data file, each with its end."""
    with lzma.open(_DATA / f"{name}.jsonl.xz", "rt", encoding="utf-8", newline="\n") as lines:
        yield from lines
