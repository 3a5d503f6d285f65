"""The broker as an operator sees it: its transport, its queues, and the workers behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from kombu import Connection

from afterturn.doctor.finding import within
from afterturn.exits import CommandError, Exit
from tasks.names import QUEUES
from tasks.settings import celery_settings
from workers.urls import masked_url


class TransportMissing(CommandError):
    """The library of a broker's transport cannot be loaded. Install it, or use another broker."""

    def __init__(self, transport: str, why: str) -> None:
        self.problem = f"transport {transport!r} cannot be used: {why}"
        self.advice = (
            f'install what it needs, which `pip install "kombu[{transport}]"` brings for most, or '
            "use redis:// or amqp:// in broker_url or BROKER_URL"
        )
        super().__init__(f"{self.problem}; {self.advice}", Exit.CONFIGURATION)


def check_transport(url: str) -> None:
    """Load the transport of `url` without connecting. Raises `TransportMissing`."""
    transport = url.partition("://")[0].partition("+")[0]
    try:
        with Connection(url) as connection:
            _ = connection.transport
    except ImportError as error:
        missing = f"{error.name} is not installed" if error.name else "its library is not installed"
        raise TransportMissing(transport, missing) from error
    except (NameError, AttributeError) as error:
        # How some transports of kombu fail where their library is missing.
        raise TransportMissing(transport, "its library is not installed") from error


SECONDS = 3.0
"""Longest wait for one answer of the broker or of the workers."""


class BrokerSilent(Exception):
    """The broker did not answer in time, or refused. The message says why, without secrets."""


@contextmanager
def broker_application(url: str) -> Iterator[Celery]:
    """Open a Celery application that asks the broker at `url` and never waits long.

    Raises `TransportMissing`.
    """
    check_transport(url)
    app = Celery("afterturn-operator", set_as_current=False)
    app.conf.update(celery_settings(url))
    app.conf.broker_connection_timeout = SECONDS
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        "socket_connect_timeout": SECONDS,
        "socket_timeout": SECONDS,
    }
    try:
        yield app
    finally:
        app.close()


def queue_lengths(app: Celery) -> dict[str, int]:
    """Count the messages in each queue; none in one that does not exist yet.

    Raises `BrokerSilent`.
    """
    try:
        return within(SECONDS, lambda: _lengths(app))
    except Exception as error:  # every driver has errors of its own
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BrokerSilent(masked_url(reason) if "://" in reason else reason) from error


def queues_of_workers(app: Celery, *, seconds: float) -> dict[str, list[str]]:
    """Return the queues of each worker that answers within `seconds`. Raises `BrokerSilent`."""
    try:
        answers = within(SECONDS, lambda: app.control.inspect(timeout=seconds).active_queues())
    except Exception as error:  # every driver has errors of its own
        raise BrokerSilent(type(error).__name__) from error
    return {
        worker: [queue["name"] for queue in queues] for worker, queues in (answers or {}).items()
    }


def _lengths(app: Celery) -> dict[str, int]:
    lengths: dict[str, int] = {}
    with app.connection_for_read() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=int(SECONDS))
        for name in QUEUES:
            # One channel each: asking for a queue that is not there closes it.
            channel: Any = connection.channel()
            try:
                lengths[name] = channel.queue_declare(name, passive=True).message_count
            except connection.channel_errors:
                lengths[name] = 0
    return lengths
