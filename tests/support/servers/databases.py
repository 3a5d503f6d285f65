"""Databases of a PostgreSQL server that live as long as one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL, make_url


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """Yield the URL of a new, empty UTF-8 database; drop it afterwards, even while in use."""
    server = make_url(server_url)
    name = f"afterturn_test_{uuid4().hex}"
    made = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'")
    _run(server, made.format(sql.Identifier(name)))
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        _run(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _run(server: URL, statement: sql.Composed) -> None:
    address = server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True, connect_timeout=30) as connection:
        connection.execute(statement)
