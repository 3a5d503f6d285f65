"""Which indexes a database uses for the statements of a call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import sql as psycopg_sql
from sqlalchemy import Connection, event, text

from storage.engine import Database

_PLACEHOLDER = re.compile(r"%\(([^)]+)\)s|%%")
_SQLITE_INDEX = re.compile(r"USING (?:COVERING )?INDEX (\w+)")
_SQLITE_SCAN = re.compile(r"SCAN (\w+)$")


@dataclass(frozen=True, slots=True)
class Plan:
    """Indexes used and tables read from end to end, for all statements of a call."""

    indexes: frozenset[str]
    scanned: frozenset[str]
    text: str


def plan_of(database: Database, call: Callable[[Connection], object]) -> Plan:
    """Plan what `call` executes; what it writes is taken back.

    PostgreSQL plans twice: for these parameters, and for any, as it does from the sixth execution
    of a prepared statement on. An index counts when both plans use it, a scan when either does.
    """
    with database.engine.connect() as connection:
        with _recorded(connection) as statements:
            call(connection)
        if database.dialect == "sqlite":
            plans = [[_sqlite(connection, *statement) for statement in statements]]
        else:
            plans = [
                [_postgresql(connection, *statement, mode) for statement in statements]
                for mode in ("force_custom_plan", "force_generic_plan")
            ]
        connection.rollback()
    indexes = [frozenset[str]().union(*(p.indexes for p in of_mode)) for of_mode in plans]
    every = [plan for of_mode in plans for plan in of_mode]
    return Plan(
        frozenset.intersection(*indexes),
        frozenset[str]().union(*(plan.scanned for plan in every)),
        "\n".join(plan.text for plan in every),
    )


@contextmanager
def _recorded(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    statements: list[tuple[str, Any]] = []

    def record(_c: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
        statements.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", record)
    try:
        yield statements
    finally:
        event.remove(connection, "before_cursor_execute", record)


def _sqlite(connection: Connection, statement: str, parameters: Any) -> Plan:
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    steps = [str(row[-1]) for row in rows]
    return Plan(
        frozenset(name for step in steps for name in _SQLITE_INDEX.findall(step)),
        frozenset(name for step in steps for name in _SQLITE_SCAN.findall(step)),
        "\n".join([statement, *steps]),
    )


def _postgresql(connection: Connection, statement: str, parameters: Any, mode: str) -> Plan:
    places: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else f"${places.setdefault(name, len(places) + 1)}"

    prepared = _PLACEHOLDER.sub(number, statement)
    driver = connection.connection.driver_connection
    values = [psycopg_sql.Literal(parameters[name]).as_string(driver) for name in places]
    arguments = f"({', '.join(values)})" if values else ""
    connection.exec_driver_sql(f"SET LOCAL plan_cache_mode = {mode}")
    connection.exec_driver_sql(f"PREPARE planned AS {prepared}".replace("%", "%%"))
    explain = f"EXPLAIN (FORMAT JSON) EXECUTE planned {arguments}".replace(":", r"\:")
    (plan,) = connection.execute(text(explain)).scalars()
    connection.exec_driver_sql("DEALLOCATE planned")
    nodes = list(_nodes((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]))
    return Plan(
        frozenset(node["Index Name"] for node in nodes if "Index Name" in node)
        | frozenset(index for node in nodes for index in node.get("Conflict Arbiter Indexes", ())),
        frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"),
        "\n".join([prepared, mode, json.dumps(plan, indent=1)]),
    )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for inner in node.get("Plans", ()):
        yield from _nodes(inner)
