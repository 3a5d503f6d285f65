"""Hear of signals as soon as they are stored: pushed over Redis, and looked for in any case."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from storage import signals
from storage.engine import Database
from storage.signals import Signal, from_json
from tasks.names import signal_channel
from tasks.settings import PUBLISH_SETTINGS, is_redis

log = logging.getLogger(__name__)

PAGE = 100
LOOK_AT_STOP_SECONDS = 0.2
TRY_AGAIN_SECONDS = 5.0
"""How long a Redis that is away is left alone before the next try."""


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
    """The owner's signals with an id above `after`, each once and in order, until `stop`.

    A push only says that it is time to look, so one that is lost, late or repeated changes
    nothing. No transaction is open while the caller has a signal or this waits.
    """
    with _Pushes(broker_url, owner) as pushes:
        while not stop():
            with database.read() as connection:
                found = signals.read(connection, owner=owner, after=after, quiet=quiet, limit=PAGE)
            for signal in found:
                after = signal.id
                yield signal
            if len(found) < PAGE:
                pushes.wait(poll_seconds, after=after, stop=stop)


class _Pushes:
    """What Redis pushes, where the broker is one. Whatever fails there only means to wait."""

    def __init__(self, broker_url: str | None, owner: str) -> None:
        self._url = broker_url if is_redis(broker_url) else None
        self._channel = signal_channel(owner).encode("utf-8", "surrogatepass")
        self._client: Any = None
        self._channels: Any = None
        self._not_before = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def wait(self, seconds: float, *, after: int, stop: Callable[[], bool]) -> None:
        """Return when a signal with an id above `after` is pushed, after so many seconds, or when
        it is time to stop."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop():
            if self._heard(min(left, LOOK_AT_STOP_SECONDS), after):
                return

    def _heard(self, seconds: float, after: int) -> bool:
        if self._url is None or time.monotonic() < self._not_before:
            time.sleep(seconds)
            return False
        try:
            if self._channels is None:
                # What was pushed before must be looked for once more.
                self._subscribe(self._url)
                return True
            message = self._channels.get_message(ignore_subscribe_messages=True, timeout=seconds)
        except Exception as error:  # noqa: BLE001 - whatever a driver raises, looking goes on
            log.warning("signals are not pushed now (%s); they are polled", type(error).__name__)
            self._close()
            self._not_before = time.monotonic() + TRY_AGAIN_SECONDS
            return False
        return message is not None and _is_new(message["data"], after)

    def _subscribe(self, url: str) -> None:
        # Only who listens over Redis pays for its driver.
        import redis  # noqa: PLC0415

        self._client = redis.Redis.from_url(url, **PUBLISH_SETTINGS)
        self._channels = self._client.pubsub()
        self._channels.subscribe(self._channel)

    def _close(self) -> None:
        channels, client = self._channels, self._client
        self._channels = self._client = None
        for opened in (channels, client):
            try:
                if opened is not None:
                    opened.close()
            except Exception as error:  # noqa: BLE001 - it is given up in any case
                log.debug("closing failed: %s", type(error).__name__)


def _is_new(pushed: Any, after: int) -> bool:
    try:
        return from_json(pushed).id > after
    except ValueError:
        # Of a newer version, or of somebody else: a look tells.
        return True
