"""What a scrape reads, as the families of samples that Prometheus takes."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from afterturn.installation import OURS, version_of
from afterturn.metrics import catalogue
from afterturn.metrics.catalogue import Metric
from afterturn.metrics.reading import Delivery, Deployment, read_delivery, read_deployment
from storage.engine import Database
from storage.errors import StorageError
from storage.totals import Series
from tasks.names import QUEUES
from workers.settings import Settings
from workers.telemetry.tally import ANSWER_BOUNDS_MS, TRY_BOUNDS_MS, Figure

log = logging.getLogger(__name__)


class DeploymentCollector(Collector):
    """Reads database and broker at each scrape. What cannot be reached is reported as down."""

    def __init__(self, database: Database, settings: Callable[[], Settings]) -> None:
        self._database = database
        self._settings = settings

    def collect(self) -> Iterator[Family]:
        settings = self._settings()
        yield build_family(version_of(OURS))
        try:
            found = read_deployment(self._database, settings.compression)
        except StorageError as error:
            log.warning("no figures from the database: %s", error)
            yield up_family(catalogue.DATABASE_UP, up=False)
        else:
            yield up_family(catalogue.DATABASE_UP, up=True)
            yield from deployment_families(found)
        if settings.broker_url is not None:
            yield from delivery_families(read_delivery(settings.broker_url))

    def describe(self) -> Iterable[Family]:
        # Else it would be asked for everything while it is registered.
        return ()


def deployment_registry(database: Database, settings: Callable[[], Settings]) -> CollectorRegistry:
    """Return a registry of a deployment's metrics and no others."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(DeploymentCollector(database, settings))
    return registry


_Labels = TypeVar("_Labels", bound=tuple[str, ...])

OCCUPANCY_BOUNDS = (0.1, 0.25, 0.5, 0.75, 0.85, 1.0, 1.25, 1.5)


def build_family(version: str) -> Family:
    """Return the version of the exporter."""
    name = catalogue.BUILD.name.removesuffix("_info")
    return InfoMetricFamily(name, catalogue.BUILD.help, value={"version": version})


def up_family(metric: Metric, *, up: bool) -> Family:
    """Return whether the source of the others could be reached."""
    return GaugeMetricFamily(metric.name, metric.help, value=float(up))


def deployment_families(found: Deployment) -> Iterator[Family]:
    """Return the families of the database."""
    yield from _queue_families(found)
    yield _gauge(
        catalogue.LEASES,
        {("held",): found.leases.held, ("expired",): found.leases.expired},
    )
    yield _gauge(catalogue.UNDECIDED, {(): found.lag.sessions})
    yield _gauge(catalogue.EVENT_LAG, {(): (found.lag.oldest_ms or 0) / 1000})
    yield _gauge(catalogue.COOLDOWNS, {(): found.cooldowns})
    yield _gauge(catalogue.LOCKED, {(): found.locked})
    yield _gauge(catalogue.PLACEHOLDERS, {(): found.placeholders})
    yield _occupancy(found.occupancies)
    yield _gauge(catalogue.BREAKER_OPEN, {(one.name,): int(one.is_open) for one in found.endpoints})
    yield _gauge(catalogue.BREAKER_FAILURES, {(one.name,): one.failures for one in found.endpoints})
    yield from _total_families(found.totals)


def delivery_families(found: Delivery) -> Iterator[Family]:
    """Return the families of the broker."""
    yield up_family(catalogue.BROKER_UP, up=found.messages is not None)
    if found.messages is not None:
        yield _gauge(catalogue.MESSAGES, {(name,): n for name, n in found.messages.items()})
        yield _gauge(catalogue.WORKERS, {(name,): found.workers.get(name, 0) for name in QUEUES})


def _queue_families(found: Deployment) -> Iterator[Family]:
    jobs = {
        (queue.name, state): number
        for queue in found.queues
        for state, number in (
            ("due", queue.jobs.due),
            ("waiting", queue.jobs.waiting),
            ("running", queue.jobs.running),
            ("dead", queue.jobs.dead),
        )
    }
    yield _gauge(catalogue.JOBS, jobs)
    yield _gauge(
        catalogue.OLDEST_DUE,
        {(queue.name,): (queue.jobs.oldest_ms or 0) / 1000 for queue in found.queues},
    )
    names = [queue.name for queue in found.queues]
    yield _gauge(catalogue.RETRYING, {(name,): found.retrying.get(name, 0) for name in names})
    yield _gauge(
        catalogue.PAUSED,
        {(queue.name,): int(queue.paused is not None) for queue in found.queues},
    )


def _total_families(totals: Counter[Series]) -> Iterator[Family]:
    by_figure: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
    for (name, labels), value in totals.items():
        by_figure[name][labels] = value
    for metric, figure in (
        (catalogue.PASSES, Figure.TRIES),
        (catalogue.PASS_ERRORS, Figure.TRY_ERRORS),
        (catalogue.FREED, Figure.FREED_TOKENS),
        (catalogue.ADDED, Figure.ADDED_TOKENS),
        (catalogue.MODEL_REQUESTS, Figure.REQUESTS),
        (catalogue.PROMPT_TOKENS, Figure.PROMPT_TOKENS),
        (catalogue.COMPLETION_TOKENS, Figure.COMPLETION_TOKENS),
        (catalogue.MODEL_ERRORS, Figure.MODEL_ERRORS),
    ):
        yield _counter(metric, by_figure[figure])
    for metric, classes, sums, bounds in (
        (catalogue.PASS_SECONDS, Figure.TRY_CLASSES, Figure.TRY_MS, TRY_BOUNDS_MS),
        (catalogue.ANSWER_SECONDS, Figure.ANSWER_CLASSES, Figure.ANSWER_MS, ANSWER_BOUNDS_MS),
    ):
        yield _histogram(metric, by_figure[classes], by_figure[sums], bounds)


def _gauge(metric: Metric, values: Mapping[_Labels, float]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _counter(metric: Metric, values: dict[tuple[str, ...], int]) -> Family:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def _histogram(
    metric: Metric,
    classes: dict[tuple[str, ...], int],
    sums: dict[tuple[str, ...], int],
    bounds_ms: Sequence[int],
) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, total_ms in sorted(sums.items()):
        counts = [classes.get((*labels, str(n)), 0) for n in range(len(bounds_ms) + 1)]
        upper = [*(f"{bound / 1000:g}" for bound in bounds_ms), "+Inf"]
        buckets = list(zip(upper, accumulate(counts), strict=True))
        family.add_metric(labels, buckets=buckets, sum_value=total_ms / 1000)
    return family


def _occupancy(shares: Sequence[float]) -> Family:
    counts = Counter(bisect_left(OCCUPANCY_BOUNDS, share) for share in shares)
    upper = [*(f"{bound:g}" for bound in OCCUPANCY_BOUNDS), "+Inf"]
    cumulated = accumulate(counts[n] for n in range(len(upper)))
    family = GaugeHistogramMetricFamily(catalogue.OCCUPANCY.name, catalogue.OCCUPANCY.help)
    family.add_metric((), buckets=list(zip(upper, cumulated, strict=True)), gsum_value=sum(shares))
    return family
