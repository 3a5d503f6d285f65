"""Publishing at the broker: notifications of due jobs, and signals for gateways that listen.

Neither contains text of a conversation, and either may be lost: jobs and signals are rows, which
the reconciler and the gateways find anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from celery import Celery
from kombu.exceptions import OperationalError

from storage.jobs import DueJob
from storage.signals import Signal, to_json
from tasks.names import TASK_OF_KIND, signal_channel
from tasks.settings import PUBLISH_SETTINGS, is_redis

log = logging.getLogger(__name__)


def notify(app: Celery, due: Iterable[DueJob], *, level: int = logging.WARNING) -> int:
    """Publish a short message per job and return how many were sent.

    An unreachable broker is not an error, only a line in the log at `level`: the reconciler
    notifies again.
    """
    published = 0
    for job in due:
        try:
            app.send_task(
                TASK_OF_KIND[job.kind],
                kwargs={
                    "job_id": job.id,
                    "session": job.session,
                    "trigger": job.trigger,
                    "queue": job.queue,
                },
                queue=job.queue,
                ignore_result=True,
            )
        except (OperationalError, OSError) as error:
            reason = type(error).__name__
            log.log(level, "broker not reached (%s); the reconciler will notify", reason)
            break
        published += 1
    return published


def publish_signals(broker_url: str | None, signals: Iterable[Signal]) -> int:
    """Publish a message per signal that is not quiet and return how many were sent.

    Does nothing where the broker is not Redis. Never raises: errors are logged.
    """
    loud = [signal for signal in signals if not signal.quiet]
    if not loud or broker_url is None or not is_redis(broker_url):
        return 0
    published = 0
    try:
        # Only processes that publish over Redis load its driver.
        import redis  # noqa: PLC0415

        with redis.Redis.from_url(broker_url, **PUBLISH_SETTINGS) as client:
            for signal in loud:
                channel = signal_channel(signal.owner).encode("utf-8", "surrogatepass")
                client.publish(channel, to_json(signal))
                published += 1
    except Exception as error:  # noqa: BLE001 - the job is done, no driver error may change that
        log.warning("signals not published (%s); gateways find them", type(error).__name__)
    return published
