"""Text that PostgreSQL cannot store, made storable and back again.

PostgreSQL takes neither NUL nor lone surrogates. Both are written as U+FDD0, a code point that
Unicode reserves for such private use, followed by four hexadecimal digits; U+FDD0 itself too, so
that every string comes back as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Dialect,
    FromClause,
    Text,
    bindparam,
    column,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeDecorator, TypeEngine

_MARK = "\ufdd0"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff\ufdd0]")
_ESCAPED = re.compile(_MARK + "([0-9a-f]{4})")


def escape(text: str) -> str:
    """Make `text` storable. The inverse of `unescape` for every string."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    if _MARK not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


class EscapedText(TypeDecorator[str]):
    """A TEXT column for any Python string."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - signature of the base class
        return None if value is None else escape(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 - signature of the base class
        return None if value is None else unescape(value)


class ListOf(TypeDecorator[Iterable[Any]]):
    """A list of items of one type: an array of PostgreSQL, JSON for SQLite."""

    impl = Text
    cache_ok = True

    def __init__(self, item: type[BigInteger | Text]) -> None:
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return ARRAY(self.item) if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: Iterable[Any] | None, dialect: Dialect) -> Any:
        items = list(value or ())
        return items if dialect.name == "postgresql" else json.dumps(items)


def among(
    column: ColumnElement[Any], name: str, dialect: str, item: type[BigInteger | Text] = BigInteger
) -> ColumnElement[bool]:
    """Return whether `column` is an item of the list in the parameter `name`."""
    given = bindparam(name, type_=ListOf(item))
    if dialect == "postgresql":
        return column == func.any(given)
    return column.in_(select(func.json_each(given).table_valued("value").c.value))


def rows_given(dialect: str, **items: type[BigInteger | Text]) -> FromClause:
    """Return rows whose columns come from one list parameter each, all of one length."""
    lists = {name: bindparam(name, type_=ListOf(item)) for name, item in items.items()}
    if dialect == "postgresql":
        columns = [column(name, item()) for name, item in items.items()]
        return func.unnest(*lists.values()).table_valued(*columns).render_derived("given")
    tables = [
        func.json_each(given).table_valued("key", "value", name=f"list_of_{name}")
        for name, given in lists.items()
    ]
    joined: FromClause = tables[0]
    for table in tables[1:]:
        joined = joined.join(table, table.c.key == tables[0].c.key)
    values = [table.c.value.label(name) for name, table in zip(items, tables, strict=True)]
    return select(*values).select_from(joined).subquery("given")
