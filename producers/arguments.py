"""What gateways give with a request for compaction, checked at the door."""

from __future__ import annotations

import math
from typing import Any

from producers.windows import MOST_TOKENS
from workers.batch.span import CompactionOptions
from workers.redaction import redact

MOST_FOCUS_CHARS = 500
"""What of a focus topic is kept: more than a few sentences is no topic."""

MOST_KEPT_TURNS = 10_000


class RequestError(ValueError):
    """A request cannot be understood. Nothing was stored or made due.

    `field` is the argument at fault.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def check_seconds(field: str, seconds: object) -> float:
    """Check a time to wait, in seconds from 0 up. Raises `RequestError`."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise RequestError(field, f"is a {type(seconds).__name__}, must be seconds from 0 up")
    if not math.isfinite(seconds) or seconds < 0:
        raise RequestError(field, f"must be seconds from 0 up, is {seconds}")
    return float(seconds)


def check_tokens(tokens: object) -> int | None:
    """Check a gateway's own estimate of a request; None is none. Raises `RequestError`."""
    return None if tokens is None else check_whole("tokens", tokens, most=MOST_TOKENS)


def check_whole(field: str, number: Any, *, least: int = 0, most: int) -> int:
    """Check a whole number in a range. Raises `RequestError`."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise RequestError(field, f"is a {type(number).__name__}, must be a whole number")
    if not least <= number <= most:
        raise RequestError(field, f"must be from {least:,} to {most:,}, is {number:,}")
    return number


def check_wishes(
    *,
    focus: object,
    keep_last: object,
    around: object,
    up_to: object,
    next_position: int,
) -> CompactionOptions:
    """What a person asks of a compaction of a session whose rows lie below `next_position`.

    The focus comes without its secrets and cut to 500 characters, for it is stored. Raises
    `RequestError`.
    """
    given = {"keep_last": keep_last, "around": around, "up_to": up_to}
    named = [field for field, value in given.items() if value is not None]
    if len(named) > 1:
        raise RequestError(named[1], f"goes not together with {named[0]}; give one of them")
    if focus is not None and not isinstance(focus, str):
        raise RequestError("focus", f"is a {type(focus).__name__}, must be text")
    return CompactionOptions(
        # In this order: a secret that is cut in two would not be known as one.
        focus=redact(" ".join(focus.split()))[:MOST_FOCUS_CHARS].rstrip() if focus else "",
        keep_last=_optional("keep_last", keep_last, least=1, most=MOST_KEPT_TURNS),
        around=_position("around", around, next_position),
        up_to=_position("up_to", up_to, next_position),
    )


def _position(field: str, position: object, next_position: int) -> int | None:
    if position is not None and next_position == 0:
        raise RequestError(field, "the session holds no messages yet")
    return _optional(field, position, least=0, most=next_position - 1)


def _optional(field: str, number: object, *, least: int, most: int) -> int | None:
    return None if number is None else check_whole(field, number, least=least, most=most)
