"""URLs as people write them in settings, and their masking for output."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import platformdirs
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

_DRIVERS = {"sqlite": "sqlite", "postgresql+psycopg": "postgresql+psycopg"}
_ALIASES = {
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
}

BROKER_SCHEMES = (
    "amqp", "amqps", "azureservicebus", "azurestoragequeues", "confluentkafka", "consul", "etcd",
    "filesystem", "gcpubsub", "kafka", "librabbitmq", "memory", "mongodb", "pgmq", "pyamqp",
    "pyro", "qpid", "redis", "rediss", "sentinel", "slmq", "sqla", "sqlalchemy", "sqs", "zookeeper",
)  # fmt: skip
"""The transports that Celery knows by name. A missing library of one shows only when it is used."""

_BROKERS_WITH_PORTS = frozenset({"amqp", "amqps", "pyamqp", "redis", "rediss", "sentinel"})
_SCHEME = re.compile(r"[a-z][a-z0-9.-]*(\+[a-z0-9.+-]+)?", re.I)


def default_database_url() -> str:
    """Return the URL of the SQLite file `afterturn.db` in the user's data directory.

    The directory need not exist yet.
    """
    path = platformdirs.user_data_path("afterturn", appauthor=False) / "afterturn.db"
    return URL.create("sqlite", database=path.as_posix()).render_as_string(hide_password=False)


def database_url(text: str) -> str:
    """Return `text` with the driver that the storage uses, everything else as given.

    `postgres://` and `postgresql://` become `postgresql+psycopg://`. Raises `ValueError` for
    other databases and drivers, and for SQLite in memory, which other processes could not see and
    which would lose every conversation. The message never repeats the URL.
    """
    scheme, separator, rest = text.partition("://")
    driver = (_DRIVERS | _ALIASES).get(scheme.lower())
    if not separator or driver is None:
        raise ValueError("needs to start with sqlite:///, postgresql:// or postgresql+psycopg://")
    url = f"{driver}://{rest}"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError(
            "cannot be read as a URL; write special characters in user and password as %XX"
        ) from None
    if driver == "sqlite" and _is_in_memory(parsed):
        raise ValueError("needs a file: a database in memory loses every conversation")
    return url


def _is_in_memory(url: URL) -> bool:
    return url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory"


def broker_url(text: str) -> str:
    """Return `text` if it is the URL of a broker, or several separated by semicolons.

    Raises `ValueError` for a scheme that Celery does not know and for an invalid port.
    The message never repeats more than the scheme.
    """
    for url in text.split(";"):
        scheme, separator, _ = url.partition("://")
        if not separator or not _SCHEME.fullmatch(scheme):
            raise ValueError("needs to be a URL such as redis://localhost:6379/0")
        # The part after a plus belongs to the library of the transport, as in sqla+sqlite. Celery
        # takes the part before it as written, but a whole scheme in either case.
        transport, plus, _ = scheme.partition("+")
        transport = transport if plus else transport.lower()
        if transport not in BROKER_SCHEMES:
            raise ValueError(
                f"scheme {scheme!r} is no transport that Celery knows; use redis://, rediss:// or "
                "amqp://"
            )
        if transport in _BROKERS_WITH_PORTS and not _has_readable_port(url):
            raise ValueError(
                "the port cannot be read, it needs to be a number from 1 to 65535; write special "
                "characters in user and password as %XX"
            )
    return text


def _has_readable_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def http_url(text: str) -> str:
    """Return `text` if it is an http or https URL with a host, else raise `ValueError`."""
    problem = "needs to be a URL such as http://localhost:8080/v1"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(problem) from None
    if not usable or re.search(r"\s", text):
        raise ValueError(problem)
    return text


def masked_url(text: str) -> str:
    """Return `text` with the user, password and query of every URL in it replaced by `***`.

    A list of brokers separated by semicolons is masked one by one.
    """
    return ";".join(_masked(part) for part in text.split(";"))


def _masked(url: str) -> str:
    # Greedy up to the last @: an unescaped @ or / inside a password must not show the rest of it.
    hidden = re.sub(r"^(.*?://)?.*@", r"\1***@", url, flags=re.DOTALL)
    return re.sub(r"\?.*", "?***", hidden, flags=re.DOTALL)
