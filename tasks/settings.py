"""Celery's settings, the same for gateways and workers.

A message is a notification that names a job; the job is a row. A lost or repeated message does no
harm, so the settings favour speed and bounded waits.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from kombu import Queue

from tasks import names
from workers.settings import Settings

SOCKET_SECONDS = 0.25
"""Longest wait of a gateway for one answer of the broker, in seconds."""

NOTIFY_RETRY = {
    # One more try, at once: the reconciler publishes missed notifications.
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.05,
    "interval_max": 0.05,
}

_VERIFY = "ssl_cert_reqs=required"

PUBLISH_SETTINGS: dict[str, Any] = {
    "socket_timeout": SOCKET_SECONDS,
    "socket_connect_timeout": SOCKET_SECONDS,
    # The default retries for seconds.
    "retry": None,
}
"""Options of the Redis client that publishes signals, or listens for them."""


def is_redis(broker_url: str | None) -> bool:
    """Return whether signals can be published: over a Redis that the URL names by host."""
    return urlsplit(broker_url or "").scheme in {"redis", "rediss"}


def broker_of(settings: Settings) -> str:
    """Return the configured broker's URL. Raises `SystemExit` where there is none."""
    if settings.broker_url is None:
        raise SystemExit(
            "no broker is configured: set broker_url in the configuration or BROKER_URL in the "
            "environment, or run `afterturn up`, which needs none"
        )
    return settings.broker_url


def verified(broker_url: str) -> str:
    """Return the URL, or several separated by semicolons, with certificate verification.

    Switches it on for Redis over TLS unless the URL says otherwise: the driver's default is not to
    verify.
    """
    return ";".join(_verified(url) for url in broker_url.split(";"))


def _verified(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "rediss" or "ssl_cert_reqs" in parse_qs(parts.query):
        return url
    query = f"{parts.query}&{_VERIFY}" if parts.query else _VERIFY
    return parts._replace(query=query).geturl()


def celery_settings(broker_url: str | None, *, notify_only: bool = False) -> dict[str, Any]:
    """Return Celery's settings for a broker; None is the transport within one process.

    `notify_only` is for gateways, where every wait for the broker is tightly bounded.
    """
    # Named explicitly, since the driver warns where it has to assume this name.
    url = verified(broker_url) if broker_url else "memory://localhost"
    return {
        "broker_url": url,
        # JSON only on the wire: pickled messages could run code.
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        # The row stores the outcome; a result backend costs a third of the throughput.
        "result_backend": None,
        "task_ignore_result": True,
        # Acknowledge early: the row is the work, so a lost message costs one notification,
        # and neither visibility timeouts nor a broker's restart run a job twice.
        "task_acks_late": False,
        # A model call takes seconds: an idle worker handles a waiting message sooner.
        "worker_prefetch_multiplier": 1,
        # A task with an undeclared name is an error, not a new queue.
        "task_create_missing_queues": False,
        "task_default_queue": names.TURNS,
        "task_queues": [Queue(name, routing_key=name) for name in names.QUEUES],
        # A worker keeps trying to reach its broker, at its start too.
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # By name: a gateway uses these settings too, and never loads it.
        "worker_consumer": "tasks.lifecycle:Consumer",
        "broker_transport_options": _transport_options(url, notify_only=notify_only),
        # The default is to wait forever for a free connection.
        "broker_pool_acquire_timeout": 1.0,
        "task_publish_retry_policy": NOTIFY_RETRY,
        # Logging belongs to the process, not to Celery.
        "worker_hijack_root_logger": False,
        # Times in events and the schedule are UTC, like all others.
        "timezone": "UTC",
        "enable_utc": True,
    }


def _transport_options(url: str, *, notify_only: bool) -> dict[str, Any]:
    match urlsplit(url).scheme.partition("+")[0]:
        case "redis" | "rediss":
            if notify_only:
                return {
                    "socket_timeout": SOCKET_SECONDS,
                    "socket_connect_timeout": SOCKET_SECONDS,
                    **NOTIFY_RETRY,
                }
            return {
                # Detects a broker that hangs; kombu's default is to wait forever.
                "socket_timeout": 30,
                "socket_connect_timeout": 5,
                "socket_keepalive": True,
                "health_check_interval": 15,
            }
        case "memory":
            # How long an idle worker within the process sleeps between two polls.
            return {"polling_interval": 0.02}
        case _:
            return {}
