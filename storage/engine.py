"""The shared database, SQLite or PostgreSQL, and its clock."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    create_engine,
    event,
    literal_column,
    make_url,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InvalidatePoolError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from storage.concurrency import ConcurrencyLimit
from storage.errors import DatabaseUnavailable, StorageError

BUSY_SECONDS = 30
CONNECT_SECONDS = 5

SILENT_SECONDS = 30
"""How long a client may hold a transaction open on PostgreSQL without a statement. Ours take
milliseconds, and a frozen host must not keep others from the rows that it has locked."""

_NOTICE_LOST_HOST = {
    # Without these a call waits a quarter of an hour for a host that lost its power.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
TRUSTED_SECONDS = 0.02
"""How long after its last use a connection to PostgreSQL is used without a ping: a ping takes as
long as several statements, and a restart takes far longer than this (a small server on a quiet
machine: some 150 ms)."""

PREPARE_THRESHOLD = 5
"""How often a connection to PostgreSQL runs a statement before it prepares it: planning takes
longer than most of ours run. This is the driver's default."""

_POLL_SECONDS = 0.01
_ROUND_TRIPS = 10
_THRESHOLD = "prepare_threshold"
_IDLE_SINCE = "afterturn_idle_since"
_WRITING = "afterturn_writing"
_BARE = "afterturn_bare"
_UNTOUCHED = "nothing was stored"
_UNKNOWN = (
    "the commit failed, so it is unknown whether this was stored: repeat the call "
    "with the same event_id"
)
_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
_ALONE = {"isolation_level": "AUTOCOMMIT"}
_CLOCKS = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}


@dataclass(frozen=True, slots=True)
class Database:
    """The shared database. Safe to use from many threads; open it anew after a fork.

    `offset_ms` is added to the database's clock, for tests that move time. `concurrency_limit`
    bounds how many threads use it at the same time.
    """

    engine: Engine
    offset_ms: int = 0
    concurrency_limit: ConcurrencyLimit | None = None

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @property
    def place(self) -> str:
        """The URL without its password, and without its options, which may contain one too."""
        return self.engine.url.set(query={}).render_as_string(hide_password=True)

    def now(self) -> ColumnElement[int]:
        """Return the database's time in milliseconds since 1970, as an SQL expression."""
        return clock(self.dialect, self.offset_ms)

    def moment(self) -> ColumnElement[int]:
        """Return the same as one value for a whole statement, for conditions that an index serves.

        PostgreSQL computes `now()` anew for every row, and so reads an index from end to end
        instead of stopping there.
        """
        return select(self.now()).scalar_subquery()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection for reading; all that it reads is one snapshot.

        Writes through it are refused or rolled back. Raises `DatabaseUnavailable` where the driver
        fails.
        """
        is_postgresql = self.dialect == "postgresql"
        with (
            self._turn(),
            self._failures_named(),
            self.engine.connect().execution_options(
                **(_SNAPSHOT if is_postgresql else {})
            ) as connection,
        ):
            yield connection
            if is_postgresql:
                # A rollback makes the driver forget every statement that it has prepared.
                connection.commit()

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """Yield a connection for reading with one statement, which on PostgreSQL costs no
        transaction.

        Raises `DatabaseUnavailable` where the driver fails.
        """
        alone = _ALONE if self.dialect == "postgresql" else {}
        with (
            self._turn(),
            self._failures_named(),
            self.engine.connect().execution_options(**alone) as connection,
        ):
            yield connection

    @contextmanager
    def store(self) -> Iterator[Connection]:
        """Yield a transaction of one statement, which on PostgreSQL begins and ends by itself.

        Raises `DatabaseUnavailable` where the driver fails; it is then unknown whether that was
        stored, unless its text says that nothing was. `IntegrityError` passes as in `write`.
        """
        if self.dialect != "postgresql":
            with self.write() as connection:
                yield connection
            return
        with (
            self._turn(),
            self._failures_named(),
            self.engine.connect().execution_options(**_ALONE) as connection,
            self._failures_named(_UNKNOWN),
        ):
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a transaction: committed when the block ends, rolled back when it raises.

        Raises `DatabaseUnavailable` where the driver fails; then nothing was written, unless its
        text says that the commit itself failed, which leaves that unknown. SQLAlchemy's
        `IntegrityError`, a conflict with stored rows, passes with the values of rows removed.
        """
        with (
            self._turn(),
            self._failures_named(),
            self.engine.connect().execution_options(**{_WRITING: True}) as connection,
            connection.begin() as transaction,
        ):
            yield connection
            # The block may have rolled back itself, as a refused claim does.
            if transaction.is_active:
                with self._failures_named(_UNKNOWN):
                    transaction.commit()

    @contextmanager
    def write_schema(self) -> Iterator[Connection]:
        """Yield a transaction for changing tables, like `write` but with SQLite's foreign keys off.

        SQLite changes a table by copying it and dropping the old one, and that would delete, by
        cascade, every row that refers to it.
        """
        with (
            self._failures_named(),
            self.engine.connect().execution_options(**{_WRITING: True}) as connection,
            _foreign_keys_off(connection),
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def bare(self) -> Iterator[Connection]:
        """Yield a connection to SQLite outside of any transaction, for maintenance that needs that.

        Raises `DatabaseUnavailable` where the driver fails.
        """
        with (
            self._failures_named(),
            self.engine.connect().execution_options(**{_BARE: True}) as connection,
        ):
            yield connection

    def way_seconds(self) -> float:
        """Return the shortest round-trip time of a statement.

        Raises `DatabaseUnavailable` where the driver fails.
        """
        with self.look() as connection:
            return min(_seconds_of_nothing(connection) for _ in range(_ROUND_TRIPS))

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def _turn(self) -> AbstractContextManager[None]:
        return self.concurrency_limit.passed() if self.concurrency_limit else nullcontext()

    @contextmanager
    def _failures_named(self, outcome: str = _UNTOUCHED) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            cause = error.orig or error
            raise IntegrityError(
                error.statement, None, type(cause)(_first_line(cause)), hide_parameters=True
            ) from None
        except DataError as error:
            # Its very first line may quote what was to be stored.
            raise self._unavailable(type(error.orig or error).__name__, outcome) from None
        except (DBAPIError, PoolTimeout) as error:
            cause = getattr(error, "orig", None) or error
            why = f"{type(cause).__name__}: {_first_line(cause)}"
            raise self._unavailable(why, outcome) from error

    def _unavailable(self, why: str, outcome: str) -> DatabaseUnavailable:
        return DatabaseUnavailable(
            f"the database {self.place} failed ({why}); {outcome}. Check that it runs and that "
            "DATABASE_URL names it (`afterturn doctor`)"
        )


def _seconds_of_nothing(connection: Connection) -> float:
    started = time.perf_counter()
    connection.exec_driver_sql("SELECT 1")
    return time.perf_counter() - started


def _first_line(error: BaseException) -> str:
    # Further lines of a driver's error may quote the values of rows.
    return (str(error).splitlines() or [type(error).__name__])[0]


def open_database(url: str, *, offset_ms: int = 0, pool_size: int = 10) -> Database:
    """Open `url` (`sqlite:///PATH` or `postgresql://…`). Connects at the first use.

    Raises `StorageError` for a URL that cannot work.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Raised without its cause, which may quote a part of the URL, such as a password.
        raise StorageError(
            "the database URL cannot be read; write sqlite:///PATH or postgresql://USER@HOST/NAME"
        ) from None
    match parsed.get_backend_name():
        case "sqlite":
            return Database(_open_sqlite(parsed, pool_size), offset_ms)
        case "postgresql" | "postgres":
            return Database(_open_postgresql(parsed, pool_size), offset_ms)
        case other:
            raise StorageError(
                f"databases of type {other!r} are not supported; use sqlite or postgresql"
            )


def clock(dialect: str, offset_ms: int) -> ColumnElement[int]:
    """Return the time of a database of `dialect` plus an offset, in milliseconds since 1970."""
    return literal_column(f"({_CLOCKS[dialect]} + {offset_ms:d})", BigInteger)


def insert_into(connection: Connection, table: Any) -> Any:
    """Return an INSERT of the connection's dialect, for `ON CONFLICT`, which both have."""
    return insert_of(connection.dialect.name, table)


def insert_of(dialect: str, table: Any) -> Any:
    """Return an INSERT of `dialect`, for `ON CONFLICT`, which both have."""
    return (postgresql if dialect == "postgresql" else sqlite).insert(table)


def _open_sqlite(url: URL, pool_size: int) -> Engine:
    if not url.database or url.database == ":memory:":
        raise StorageError(
            "an in-memory SQLite database cannot be shared between processes; name a file: "
            "sqlite:///PATH"
        )
    if url.database.startswith("file:"):
        raise StorageError("SQLite's file: addresses are not supported; write sqlite:///PATH")
    path = Path(url.database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder {path.parent} cannot be made: {error.strerror}") from error
    engine = create_engine(
        url.set(drivername="sqlite"),
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=pool_size,
        connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        _use_write_ahead_log(cursor)
        for pragma in (
            # A stored turn survives a loss of power, not only of the process.
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={BUSY_SECONDS * 1000}",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get(_BARE):
            return
        # A transaction that reads first and then writes could not be upgraded while another one
        # writes, so writers say so at once.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_WRITING) else "BEGIN")

    return engine


def _use_write_ahead_log(cursor: sqlite3.Cursor) -> None:
    # SQLite itself does not wait here for a process that makes the same change to a new file.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return


@contextmanager
def _foreign_keys_off(connection: Connection) -> Iterator[None]:
    """Switch SQLite's foreign keys off within the block; works only outside of transactions."""
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys=ON")


def _open_postgresql(url: URL, pool_size: int) -> Engine:
    threshold = _prepare_threshold(url)
    engine = create_engine(
        url.set(drivername="postgresql+psycopg").difference_update_query([_THRESHOLD]),
        hide_parameters=True,
        # The connection that was used last comes next, and so mostly needs no ping.
        pool_use_lifo=True,
        pool_size=pool_size,
        max_overflow=pool_size,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "afterturn",
            "prepare_threshold": threshold,
            **_NOTICE_LOST_HOST,
        },
    )
    event.listen(engine, "connect", _send_integers_alike)
    _ping_when_idle(engine)
    if "options" not in url.query:
        event.listen(engine, "connect", _bound_silence)
    return engine


def _ping_when_idle(engine: Engine) -> None:
    """Ping an idle connection before it is used; where it is gone, invalidate all that are as
    old."""

    @event.listens_for(engine, "checkin")
    def note(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info[_IDLE_SINCE] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        since = record.info.get(_IDLE_SINCE)
        if since is None or time.monotonic() - since < TRUSTED_SECONDS:
            return
        dialect = engine.dialect
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            if not dialect.is_disconnect(error, connection, None):
                raise
            raise InvalidatePoolError from error


def _prepare_threshold(url: URL) -> int | None:
    """Return how often a connection runs a statement before it prepares it; None is never, for
    poolers that give each transaction another connection and do not support prepared statements."""
    match url.query.get(_THRESHOLD):
        case None:
            return PREPARE_THRESHOLD
        case "none":
            return None
        case str(given) if given.isascii() and given.isdecimal():
            return int(given)
    raise StorageError(
        f"the database URL's {_THRESHOLD} is neither a number nor none; write "
        f"{_THRESHOLD}=none where a connection pooler knows of no prepared statements"
    )


def _send_integers_alike(connection: Any, _record: Any) -> None:
    # By default the driver sends each number as the smallest type that fits it, and prepares a
    # statement anew for each mixture of types.
    from psycopg.types.numeric import Int8Dumper  # noqa: PLC0415 - SQLite users need no psycopg

    connection.adapters.register_dumper(int, Int8Dumper)


def _bound_silence(connection: Any, _record: Any) -> None:
    # By a statement, since connection poolers refuse this among the startup parameters.
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = {SILENT_SECONDS * 1000}")
    connection.commit()
