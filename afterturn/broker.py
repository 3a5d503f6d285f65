"""A look at the broker that waits for it no longer than a person would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

from afterturn.doctor.finding import within
from afterturn.transport import check_transport
from tasks.names import QUEUES
from tasks.settings import celery_settings
from workers.settings.urls import masked_url

SECONDS = 3.0
"""Longest wait for one answer of the broker or of the workers."""


class BrokerSilent(Exception):
    """The broker did not answer in time, or refused. The message says why, without secrets."""


@contextmanager
def broker_application(url: str) -> Iterator[Celery]:
    """A Celery application that asks the broker at `url` and never waits long.

    Raises `TransportMissing`.
    """
    check_transport(url)
    app = Celery("afterturn-look", set_as_current=False)
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
    """Messages in each queue; none in one that does not exist yet. Raises `BrokerSilent`."""
    try:
        return within(SECONDS, lambda: _lengths(app))
    except Exception as error:  # every driver has errors of its own
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BrokerSilent(masked_url(reason) if "://" in reason else reason) from error


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
