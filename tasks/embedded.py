"""A worker with its reconciler within one process, without a broker or another program."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Event, Thread

from celery import Celery
from celery.utils.nodenames import anon_nodename
from celery.worker import WorkController, state

from storage.errors import StorageError
from tasks.application import ProcessContext, make_app
from tasks.lifecycle import StopFlag
from tasks.maintenance import tick
from tasks.names import QUEUES, RECOVER_ORPHANS
from tasks.publishing import notify
from workers.runtime.context import WorkerContext
from workers.scans.reconcile import reconcile
from workers.settings import SettingsSource

log = logging.getLogger(__name__)

START_SECONDS = 30.0

GIVE_UP_SECONDS = 7.0
"""Longer than one try to reach a broker, so that a worker that was given up cannot start later."""


class EmbeddedWorker:
    """A Celery worker with a threads pool inside this process, one at a time per process.

    It consumes from the configured broker, or from the transport within the process where there
    is none. Either way it polls the jobs table every `worker.poll_seconds`, so gateways in other
    processes need not notify it, and once at its start it recovers orphans. Scheduled tasks are
    sent by others (`schedules.schedule.Clock`).
    """

    def __init__(self, settings: SettingsSource, *, queues: Sequence[str] = QUEUES) -> None:
        current = settings.current()
        self._poll_seconds = current.worker.poll_seconds
        self._on_broker = current.broker_url is not None
        self._stopping = StopFlag()
        self._context = ProcessContext(settings, self._stopping)
        self.app: Celery = make_app(current.broker_url, self._context)
        self._ready = Event()
        self._gone = Event()
        self._ended = Event()
        self._worker = WorkController(
            app=self.app,
            pool="threads",
            concurrency=current.worker.concurrency,
            queues=list(queues),
            hostname=anon_nodename(),
            loglevel=logging.WARNING,
            ready_callback=self._on_ready,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        self._threads = [
            Thread(target=self._consume, name="afterturn-worker", daemon=True),
            Thread(target=self._poll, name="afterturn-poller", daemon=True),
        ]

    @property
    def context(self) -> WorkerContext:
        """The context that the jobs of this process run with."""
        return self._context()

    def start(self) -> None:
        """Start the threads; return when the worker is ready.

        Raises:
            StorageError: the database cannot be used.
            TimeoutError: the broker is not reached within half a minute.
        """
        _ = self.context
        # Pool threads find the application by this.
        self.app.set_default()
        for thread in self._threads:
            thread.start()
        if not self._ready.wait(START_SECONDS):
            self.stop(GIVE_UP_SECONDS)
            raise TimeoutError(
                "the worker did not get ready; check that the broker runs and that BROKER_URL "
                "names it (`afterturn doctor`)"
            )

    def wait(self) -> None:
        """Wait until the worker ends, which without `stop` happens only after a serious error."""
        # Not by joining the thread: after a join that a signal interrupts it counts as ended.
        self._gone.wait()

    def stop(self, seconds: float | None = None) -> None:
        """Let running jobs finish their pass, then end; waits at most `seconds`."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._stopping.set()
        # Requests a warm shutdown of the worker of this process.
        setattr(state, "should_stop", 0)  # noqa: B010 - its stubs know it as None only
        self._wake_consumer()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(seconds)
        if not any(thread.is_alive() for thread in self._threads):
            # The next worker of this process must not see the flag; one that still ends must.
            state.should_stop = None
        self._context.close()
        self.app.close()

    def _wake_consumer(self) -> None:
        """Make the consumer check at once whether it should stop.

        On the transport within the process it waits two seconds for a message before it checks,
        and once more before it ends. Other transports wake it by themselves.
        """
        if not self._on_broker:
            for _ in range(2):
                self.app.control.broadcast("ping")

    def _on_ready(self, _consumer: object) -> None:
        self._ready.set()

    def _consume(self) -> None:
        try:
            self._worker.start()
        finally:
            self._gone.set()

    def _poll(self) -> None:
        recovered = False
        while not self._ended.wait(self._poll_seconds):
            try:
                context = self._context()
                if not recovered:
                    tick(self.app, context, RECOVER_ORPHANS, None)
                    recovered = True
                notify(self.app, reconcile(context))
            except StorageError as error:
                log.warning("the jobs table cannot be read now: %s", error)
            except Exception:
                # Without this poll no job would run any more, so it survives every error.
                log.exception("polling the jobs table failed")
