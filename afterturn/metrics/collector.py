"""What a scrape reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from afterturn.installation import OURS, version_of
from afterturn.metrics import catalogue
from afterturn.metrics.families import (
    build_family,
    delivery_families,
    deployment_families,
    up_family,
)
from afterturn.metrics.reading import read_delivery, read_deployment
from storage.engine import Database
from storage.errors import StorageError
from workers.settings import Settings

log = logging.getLogger(__name__)


class DeploymentCollector(Collector):
    """Reads database and broker at each scrape. What cannot be reached is told as down."""

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
    """A registry of a deployment's metrics and no others."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(DeploymentCollector(database, settings))
    return registry
