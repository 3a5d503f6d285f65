"""Rows for tables as they are in a database, whatever this version's models say of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, select

Rows = dict[str, list[dict[str, Any]]]


def reflect(connection: Connection) -> list[Table]:
    """Return the database's tables of ours, each behind those that it refers to."""
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != "alembic_version"]


def fill(connection: Connection) -> None:
    """Put one row into every empty table, with a value in every column.

    Columns that refer to a row refer to the one that this has made.
    """
    for table in reflect(connection):
        if connection.execute(select(table)).first() is None:
            values = {column.name: _value(column) for column in table.columns}
            connection.execute(insert(table).values(values))


def read(connection: Connection) -> Rows:
    """Return every row of every table, by the table's name and in order of the primary key."""
    return {
        table.name: [
            dict(row)
            for row in connection.execute(
                select(table).order_by(*table.primary_key.columns)
            ).mappings()
        ]
        for table in reflect(connection)
    }


def hold(now: Rows, before: Rows) -> bool:
    """Return whether `now` has every row of `before`, in those of its tables and columns it still
    has."""
    for name, rows in before.items():
        if name not in now:
            continue
        if len(now[name]) != len(rows):
            return False
        for row, former in zip(now[name], rows, strict=True):
            if any(row[column] != value for column, value in former.items() if column in row):
                return False
    return True


def _value(column: Column[Any]) -> str | int:
    if isinstance(column.type, String):
        return f"{column.table.name}.{column.name} 北京"
    # Keys, flags and references are all 1; what else there is can be as well.
    return 1
