"""A worker that goes on after a connection that cannot even be closed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer

log = logging.getLogger(__name__)

_TRANSPORTS = "kombu.transport."


class Consumer(CeleryConsumer):
    """Celery's, but that no error of a lost connection ends the worker.

    When Redis goes away twice in short order, kombu may fail with an AttributeError as it puts
    received messages back, and later when a job of before ends and its message is acknowledged;
    Celery 5.7 takes everything but a connection error as a reason to exit. Nothing depends on
    either: a message is only a ring.
    """

    loop: Callable[..., Any]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.loop = outliving(self.loop)

    def on_connection_error_after_connected(self, exc: Exception) -> Any:
        """Clean up after a lost connection, whatever comes of it."""
        try:
            return super().on_connection_error_after_connected(exc)
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker connects anew
            log.warning("a lost connection could not be closed (%s)", type(error).__name__)
            return None


def outliving(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The event loop `loop`, for which a connection that kombu has half forgotten is a lost one."""

    def run(*args: Any) -> Any:
        try:
            return loop(*args)
        except AttributeError as error:
            if not _is_of_transport(error):
                raise
            raise ConnectionResetError("a connection that is gone was used") from error

    return run


def _is_of_transport(error: AttributeError) -> bool:
    """Whether it was raised in one of kombu's transports."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and str(at.tb_frame.f_globals.get("__name__")).startswith(_TRANSPORTS)
