"""The lifecycle of a Celery worker: its start, a lost broker, and its stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from mmap import mmap
from struct import Struct
from threading import Thread
from typing import Any

from billiard.process import current_process
from celery import Celery, signals
from celery.concurrency import prefork
from celery.worker.consumer import Consumer as CeleryConsumer

from storage.errors import StorageError
from tasks.conclusion import ContextSource
from tasks.maintenance import tick
from tasks.names import RECONCILE, RECOVER_ORPHANS

log = logging.getLogger(__name__)

_TIME = Struct("d")
_TRANSPORTS = "kombu.transport."


class StartScan:
    """A scan for due work when the worker of an application starts.

    It finds at once what became due while no worker ran. It runs once, in the background. Where
    jobs run in processes of a pool, the first of them scans: the process that forks them must not
    open the database.
    """

    def __init__(self, app: Celery, context: ContextSource) -> None:
        self._app = app
        self._context = context
        # Kept by this object: Celery holds receivers weakly.
        signals.worker_ready.connect(self._on_ready)
        signals.worker_process_init.connect(self._on_process_start)

    def close(self) -> None:
        """Disconnect from Celery's signals."""
        signals.worker_ready.disconnect(self._on_ready)
        signals.worker_process_init.disconnect(self._on_process_start)

    def _on_ready(self, sender: object, **_facts: object) -> None:
        forks = isinstance(getattr(sender, "pool", None), prefork.TaskPool)
        if getattr(sender, "app", None) is self._app and not forks:
            self._start()

    def _on_process_start(self, **_facts: object) -> None:
        if getattr(current_process(), "index", None) == 0:
            self._start()

    def _start(self) -> None:
        # Not in this thread: a worker takes no job before its receivers have returned.
        Thread(target=self._scan, name="afterturn-start-scan", daemon=True).start()

    def _scan(self) -> None:
        try:
            for name in (RECOVER_ORPHANS, RECONCILE):
                tick(self._app, self._context(), name, None)
        except StorageError as error:
            log.warning("no scan for due work at the start: %s", error)
        except Exception:
            # The schedule scans again soon.
            log.exception("the scan for due work at the start failed")


class StopFlag:
    """A flag that is set when Celery shuts this process down, visible to the processes of its pool.

    Celery notifies only its main process. The flag is in memory that the forked processes of the
    pool share; it holds the time by the host's monotonic clock, which is the same for all of them.
    """

    def __init__(self) -> None:
        self._since = mmap(-1, _TIME.size)
        # Kept by this object: Celery holds receivers weakly.
        signals.worker_shutting_down.connect(self._on_shutdown)

    def __call__(self) -> bool:
        return self._read() > 0

    def lasts(self, seconds: float) -> bool:
        """Return whether the flag was set at least `seconds` ago."""
        since = self._read()
        return since > 0 and time.monotonic() - since >= seconds

    def set(self) -> None:
        """Set the flag without Celery, as the embedded worker does."""
        if not self():
            _TIME.pack_into(self._since, 0, time.monotonic())

    def _read(self) -> float:
        (since,) = _TIME.unpack_from(self._since)
        return float(since)

    def _on_shutdown(self, **_facts: object) -> None:
        self.set()


class Consumer(CeleryConsumer):
    """Celery's consumer, except that no error of a lost connection ends the worker.

    When Redis is lost twice in quick succession, kombu may raise an AttributeError while it puts
    received messages back, and again when an earlier job ends and its message is acknowledged;
    Celery 5.7 exits on everything but a connection error. Nothing depends on either, since a
    message is only a notification.
    """

    loop: Callable[..., Any]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.loop = outliving(self.loop)

    def on_connection_error_after_connected(self, exc: Exception) -> Any:
        """Clean up after a lost connection; a failure to do so is logged."""
        try:
            return super().on_connection_error_after_connected(exc)
        except Exception as error:  # noqa: BLE001 - the worker connects again in any case
            log.warning("a lost connection could not be closed (%s)", type(error).__name__)
            return None


def outliving(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the event loop `loop` so that an AttributeError of a transport is a lost connection."""

    def run(*args: Any) -> Any:
        try:
            return loop(*args)
        except AttributeError as error:
            if not _is_of_transport(error):
                raise
            raise ConnectionResetError("a connection that is gone was used") from error

    return run


def _is_of_transport(error: AttributeError) -> bool:
    """Return whether `error` was raised in one of kombu's transports."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and str(at.tb_frame.f_globals.get("__name__")).startswith(_TRANSPORTS)
