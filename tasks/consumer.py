"""A worker that goes on after a connection that cannot even be closed."""

from __future__ import annotations

import logging
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer

log = logging.getLogger(__name__)


class Consumer(CeleryConsumer):
    """Celery's, but that no error while a lost connection is cleaned up ends the worker.

    When Redis goes away twice in short order, kombu may fail with an AttributeError as
    they put received messages back, and Celery 5.7 takes everything but a connection error as a
    reason to exit. Nothing depends on that clean-up: a message is only a ring.
    """

    def on_connection_error_after_connected(self, exc: Exception) -> Any:
        """Clean up after a lost connection, whatever comes of it."""
        try:
            return super().on_connection_error_after_connected(exc)
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker connects anew
            log.warning("a lost connection could not be closed (%s)", type(error).__name__)
            return None
