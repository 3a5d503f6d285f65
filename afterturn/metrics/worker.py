"""Metrics of one worker's own tasks, counted by Celery's signals."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from celery import signals
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from afterturn.metrics.catalogue import WORKER_JOBS, WORKER_RUNNING, WORKER_SECONDS
from workers.telemetry.tally import TRY_BOUNDS_MS


class WorkerMetrics:
    """Metrics of what the worker of this process runs while the object is entered; `registry` also
    has those of the process itself: memory, processor time, open files."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._ended = Counter(
            WORKER_JOBS.name.removesuffix("_total"),
            WORKER_JOBS.help,
            WORKER_JOBS.labels,
            registry=self.registry,
        )
        self._seconds = Histogram(
            WORKER_SECONDS.name,
            WORKER_SECONDS.help,
            WORKER_SECONDS.labels,
            buckets=[bound / 1000 for bound in TRY_BOUNDS_MS],
            registry=self.registry,
        )
        self._running = Gauge(WORKER_RUNNING.name, WORKER_RUNNING.help, registry=self.registry)
        self._begun: dict[str, float] = {}

    def __enter__(self) -> Self:
        signals.task_prerun.connect(self._begin)
        signals.task_postrun.connect(self._end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signals.task_prerun.disconnect(self._begin)
        signals.task_postrun.disconnect(self._end)

    def _begin(self, task_id: str = "", **_facts: Any) -> None:
        self._begun[task_id] = time.monotonic()
        self._running.inc()

    def _end(self, task_id: str = "", task: Any = None, state: str = "", **_facts: Any) -> None:
        self._running.dec()
        name = getattr(task, "name", "")
        self._ended.labels(name, (state or "unknown").lower()).inc()
        begun = self._begun.pop(task_id, None)
        if begun is not None:
            self._seconds.labels(name).observe(time.monotonic() - begun)
