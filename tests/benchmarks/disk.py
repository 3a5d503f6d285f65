"""How much room a database takes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

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


def summary_bytes(database: Database) -> int:
    """Bytes of the texts of all summaries."""
    measure = "octet_length(text)" if database.dialect == "postgresql" else "length(text)"
    with database.read() as connection:
        return int(connection.execute(sql(f"SELECT sum({measure}) FROM summaries")).scalar_one())
