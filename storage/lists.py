"""Lists as one parameter of a statement, whatever their length.

An IN with a parameter for each item is another statement for each length, and planned anew for
each; these are always the same one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Dialect, Text, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeDecorator, TypeEngine


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
    """Whether `column` is an item of the list that the parameter `name` gives."""
    given = bindparam(name, type_=ListOf(item))
    if dialect == "postgresql":
        return column == func.any(given)
    return column.in_(select(func.json_each(given).table_valued("value").c.value))
