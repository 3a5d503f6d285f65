"""Checks of a gateway's arguments: names, token counts, times, options of a compaction."""

from __future__ import annotations

import math
from typing import Any

from producers import late
from storage.errors import InputError
from workers.batch.span import CompactionOptions

MAX_NAME_BYTES = 512
"""Longest name in UTF-8. Four of them share one index row, which PostgreSQL limits to 2,704."""

MAX_TOKENS = 1_000_000_000
"""More than any window. A larger number is a mistake."""

MAX_FOCUS_CHARS = 500
"""Length to which a focus topic is cut; a topic needs at most a few sentences."""

MAX_KEPT_TURNS = 10_000

_MIN_USABLE_TOKENS = 2
"""A threshold is at least one token and below the window."""


class RequestError(InputError):
    """An argument of a request that is not valid. Nothing was stored or enqueued.

    `field` is the argument at fault.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class IdentifierError(RequestError):
    """A name that is not text, empty or too long; `field` is the argument. Nothing was stored."""


class WindowError(RequestError):
    """A window or a reserve that cannot be used; `field` is the argument. Nothing was stored."""


def check_identifiers(**names: str | None) -> None:
    """Check names of sessions, owners, chats, threads and events, by argument.

    None passes. Raises `IdentifierError` for a name that is not text, empty or longer than 512
    bytes.
    """
    for field, name in names.items():
        if name is None:
            continue
        if not isinstance(name, str):
            raise IdentifierError(field, f"is a {type(name).__name__}, must be text")
        if not name:
            raise IdentifierError(field, "is empty; leave it out or give a name")
        size = len(name.encode("utf-8", "surrogatepass"))
        if size > MAX_NAME_BYTES:
            raise IdentifierError(
                field,
                f"has {size:,} bytes, at most {MAX_NAME_BYTES} are taken; use a hash of it instead",
            )


def check_window(*, context_window: int | None, reserved_output: int | None) -> None:
    """Check a model's window and reserve, both in tokens; None is unknown and passes.

    Raises `WindowError` for anything but a whole number in range, and for a reserve that leaves
    nothing of the given window.
    """
    _check_tokens("context_window", context_window, least=1)
    _check_tokens("reserved_output", reserved_output, least=0)
    if context_window is None or reserved_output is None:
        return
    if context_window - reserved_output < _MIN_USABLE_TOKENS:
        raise WindowError(
            "reserved_output",
            f"{reserved_output:,} tokens kept for answers leave nothing of a window of "
            f"{context_window:,}",
        )


def check_seconds(field: str, seconds: object) -> float:
    """Check a time to wait, in seconds from 0 up. Raises `RequestError`."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise RequestError(field, f"is a {type(seconds).__name__}, must be seconds from 0 up")
    if not math.isfinite(seconds) or seconds < 0:
        raise RequestError(field, f"must be seconds from 0 up, is {seconds}")
    return float(seconds)


def check_whole(field: str, number: Any, *, least: int = 0, most: int) -> int:
    """Check a whole number in a range. Raises `RequestError`."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise RequestError(field, f"is a {type(number).__name__}, must be a whole number")
    if not least <= number <= most:
        raise RequestError(field, f"must be from {least:,} to {most:,}, is {number:,}")
    return number


def check_estimate(tokens: object) -> int | None:
    """Check a gateway's own estimate of a request; None is no estimate. Raises `RequestError`."""
    return None if tokens is None else check_whole("tokens", tokens, most=MAX_TOKENS)


def check_wishes(
    *,
    focus: object,
    keep_last: object,
    around: object,
    up_to: object,
    next_position: int,
) -> CompactionOptions:
    """Return the options of a compaction that a person requests.

    Rows of the session have positions below `next_position`. The focus is stored, so it is redacted
    and cut to 500 characters. Raises `RequestError`.
    """
    given = {"keep_last": keep_last, "around": around, "up_to": up_to}
    named = [field for field, value in given.items() if value is not None]
    if len(named) > 1:
        raise RequestError(named[1], f"goes not together with {named[0]}; give one of them")
    if focus is not None and not isinstance(focus, str):
        raise RequestError("focus", f"is a {type(focus).__name__}, must be text")
    return CompactionOptions(
        # In this order: a secret that is cut in two would not be recognised.
        focus=late.redact(" ".join(focus.split()))[:MAX_FOCUS_CHARS].rstrip() if focus else "",
        keep_last=_optional("keep_last", keep_last, least=1, most=MAX_KEPT_TURNS),
        around=_position("around", around, next_position),
        up_to=_position("up_to", up_to, next_position),
    )


def _check_tokens(field: str, tokens: object, *, least: int) -> None:
    if tokens is None:
        return
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise WindowError(field, f"is a {type(tokens).__name__}, must be a whole number of tokens")
    if not least <= tokens <= MAX_TOKENS:
        raise WindowError(
            field,
            f"must be from {least} to {MAX_TOKENS:,} tokens; leave it out where it is not known",
        )


def _position(field: str, position: object, next_position: int) -> int | None:
    if position is not None and next_position == 0:
        raise RequestError(field, "the session holds no messages yet")
    return _optional(field, position, least=0, most=next_position - 1)


def _optional(field: str, number: object, *, least: int, most: int) -> int | None:
    return None if number is None else check_whole(field, number, least=least, most=most)
