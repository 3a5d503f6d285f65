"""Text that PostgreSQL cannot store, made storable and back again.

PostgreSQL takes neither NUL nor lone surrogates. Both are written as U+FDD0, a code point that
Unicode reserves for such private use, followed by four hexadecimal digits; U+FDD0 itself too, so
that every string comes back as it was.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

_MARK = "\ufdd0"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff\ufdd0]")
_ESCAPED = re.compile(_MARK + "([0-9a-f]{4})")


def escape(text: str) -> str:
    """Make `text` storable. The inverse of `unescape` for every string."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    """Give back what `escape` was given."""
    if _MARK not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


class EscapedText(TypeDecorator[str]):
    """TEXT that holds any Python string."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - signature of the base class
        return None if value is None else escape(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 - signature of the base class
        return None if value is None else unescape(value)
