"""What a database does with its files: how much room they take, and tidying them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
from sqlalchemy import text as sql

from storage.engine import Database


def disk_size(database: Database) -> int:
    """Bytes that the database uses: all pages of the SQLite file, its log worked in, that are not
    free; or all tables and indexes of a server."""
    if database.dialect == "sqlite":
        path = Path(database.engine.url.database or "")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            pages, free, size = (
                int(connection.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size
    with database.read() as connection:
        return int(
            connection.execute(
                sql(
                    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
                    "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
                )
            ).scalar_one()
        )


def tidy(database: Database) -> None:
    """Do at once what PostgreSQL's autovacuum does within a minute of a bulk load.

    Without statistics its plans, and so all times, would depend on when that happens to run.
    """
    if database.dialect == "sqlite":
        return
    address = database.engine.url.set(drivername="postgresql")
    with psycopg.connect(
        address.render_as_string(hide_password=False), autocommit=True
    ) as connection:
        connection.execute("VACUUM (ANALYZE)")


def summary_bytes(database: Database) -> int:
    """Bytes of the texts of all summaries."""
    measure = "octet_length(text)" if database.dialect == "postgresql" else "length(text)"
    with database.read() as connection:
        return int(connection.execute(sql(f"SELECT sum({measure}) FROM summaries")).scalar_one())
