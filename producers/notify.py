"""Notification of workers about due jobs, and reception of the signals that workers emit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from producers import late
from storage import signals
from storage.engine import Database
from storage.jobs import DueJob
from storage.signals import Signal, from_json
from tasks.names import signal_channel

if TYPE_CHECKING:
    from celery import Celery

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
"""Most notifications that wait for a slow broker. The reconciler publishes further ones."""

PAGE = 100
STOP_CHECK_SECONDS = 0.2
RECONNECT_SECONDS = 5.0
"""Pause before the next try to reach a lost Redis."""


class Notifier:
    """A publisher of notifications with its own thread, so that no caller waits for the broker.

    A notification may be lost: the job is a row, and the reconciler publishes it later. The thread
    loads Celery with the first notification.
    """

    def __init__(self, broker_url: str) -> None:
        self._broker_url = broker_url
        self._change = Condition()
        self._waiting: dict[int, DueJob] = {}
        self._busy = False
        self._closed = False
        self._thread: Thread | None = None

    def notify(self, job: DueJob) -> None:
        """Queue a notification. Returns at once, never raises."""
        with self._change:
            if self._closed or len(self._waiting) >= MAX_WAITING:
                return
            self._waiting[job.id] = job
            if self._thread is None:
                self._thread = Thread(target=self._run, name="afterturn-notifier", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait at most `seconds` until every notification was tried; return whether all were."""
        until = time.monotonic() + seconds
        with self._change:
            while self._waiting or self._busy:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._change.wait(left)
        return True

    def close(self, seconds: float = 1.0) -> None:
        """Publish waiting notifications for at most `seconds`, then end the thread."""
        self.flush(seconds)
        with self._change:
            self._closed = True
            self._waiting.clear()
            self._change.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        app: Celery | None = None
        unreachable = False
        while (due := self._take()) is not None:
            try:
                if app is None:
                    app = late.publishing_app(self._broker_url)
                # One warning when the broker is lost, not one per turn while it is unreachable.
                level = logging.DEBUG if unreachable else logging.WARNING
                unreachable = late.publish(app, due, level=level) < len(due)
            except Exception:
                # The reconciler notifies later.
                log.exception("a notification failed")
        if app is not None:
            app.close()

    def _take(self) -> list[DueJob] | None:
        """Wait for notifications and return them; None when the notifier is closed."""
        with self._change:
            self._busy = False
            self._change.notify_all()
            while not self._waiting:
                if self._closed:
                    return None
                self._change.wait()
            due = list(self._waiting.values())
            self._waiting.clear()
            self._busy = True
            return due


def listen(
    database: Database,
    *,
    owner: str,
    broker_url: str | None,
    after: int,
    quiet: bool,
    poll_seconds: float,
    stop: Callable[[], bool],
) -> Iterator[Signal]:
    """Yield the owner's signals with an id above `after`, each once and in order, until `stop`.

    A push only triggers a read, so a lost, late or repeated one changes nothing. No transaction is
    open while the caller handles a signal or this waits.
    """
    with _subscribed(broker_url, owner) as pushes:
        while not stop():
            with database.read() as connection:
                found = signals.read(connection, owner=owner, after=after, quiet=quiet, limit=PAGE)
            for signal in found:
                after = signal.id
                yield signal
            if len(found) < PAGE:
                pushes.wait(poll_seconds, after=after, stop=stop)


@contextmanager
def _subscribed(broker_url: str | None, owner: str) -> Iterator[_Pushes]:
    pushes = _Pushes(broker_url, owner)
    try:
        yield pushes
    finally:
        pushes.close()


class _Pushes:
    """Pushes of a Redis broker. After any failure the caller polls instead."""

    def __init__(self, broker_url: str | None, owner: str) -> None:
        self._url = broker_url
        self._channel = signal_channel(owner).encode("utf-8", "surrogatepass")
        self._client: Any = None
        self._channels: Any = None
        self._not_before = 0.0

    def wait(self, seconds: float, *, after: int, stop: Callable[[], bool]) -> None:
        """Wait for a push of a signal with an id above `after`, for `seconds`, or until `stop`."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop():
            if self._received(min(left, STOP_CHECK_SECONDS), after):
                return

    def close(self) -> None:
        """Close the connection in any state."""
        channels, client = self._channels, self._client
        self._channels = self._client = None
        for opened in (channels, client):
            try:
                if opened is not None:
                    opened.close()
            except Exception as error:  # noqa: BLE001 - the connection is not used again
                log.debug("closing failed: %s", type(error).__name__)

    def _received(self, seconds: float, after: int) -> bool:
        if self._url is None or time.monotonic() < self._not_before:
            time.sleep(seconds)
            return False
        try:
            if self._channels is None:
                # Pushes from before the subscription are missing, so the table is read again.
                return self._subscribe(self._url)
            message = self._channels.get_message(ignore_subscribe_messages=True, timeout=seconds)
        except Exception as error:  # noqa: BLE001 - polling continues after any error of a driver
            log.warning("signals are not pushed now (%s); they are polled", type(error).__name__)
            self.close()
            self._not_before = time.monotonic() + RECONNECT_SECONDS
            return False
        return message is not None and _is_new(message["data"], after)

    def _subscribe(self, url: str) -> bool:
        self._client = late.subscribing_client(url)
        if self._client is None:
            self._url = None
            return False
        self._channels = self._client.pubsub()
        self._channels.subscribe(self._channel)
        return True


def _is_new(pushed: Any, after: int) -> bool:
    try:
        return from_json(pushed).id > after
    except ValueError:
        # From a newer version or another program, so the table is read.
        return True
