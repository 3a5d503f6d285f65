"""Lists as one parameter of a statement, whatever their length.

An IN with a parameter for each item is another statement for each length, and planned anew for
each; these are always the same one.
"""

from __future__ import annotations

import json
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


def rows_given(dialect: str, **items: type[BigInteger | Text]) -> FromClause:
    """Rows of which a parameter each gives the column of its name, lists of one length."""
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
