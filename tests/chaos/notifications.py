"""What may become of messages at a broker: they come twice, out of order, or for nothing."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import redis
from celery import Celery

from storage.engine import Database
from storage.errors import StorageError
from tasks.names import QUEUES, TASK_OF_KIND
from tasks.settings import celery_settings
from tests.support.sessions.gateways import rows_of

_INVENTED = 40
_MOST_WAITING = 10_000
_BOUNDED: dict[str, Any] = {"socket_timeout": 1, "socket_connect_timeout": 1, "retry": None}


def shuffle_notifications(url: str, rng: Random) -> None:
    """Put all messages that wait into another order, half of them twice."""
    with redis.Redis.from_url(url, **_BOUNDED) as client, suppress(redis.RedisError):
        for queue in QUEUES:
            waiting = client.lpop(queue, _MOST_WAITING) or []
            waiting += rng.sample(waiting, len(waiting) // 2)
            rng.shuffle(waiting)
            if waiting:
                client.rpush(queue, *waiting)


def invent_notifications(url: str, database: Database, rng: Random) -> None:
    """Notify of jobs that are due, run or ended long ago, and for some that never were."""
    with suppress(StorageError):
        jobs = rows_of(database, "SELECT id, kind, queue FROM jobs")
        app = Celery("chaos", set_as_current=False)
        app.conf.update(celery_settings(url, notify_only=True))
        with app, suppress(Exception):
            for number, kind, queue in rng.choices(jobs, k=_INVENTED) if jobs else ():
                unknown = 10**9 * (rng.random() < 0.1)
                facts = {"job_id": number + unknown, "session": "", "trigger": "chaos"}
                app.send_task(TASK_OF_KIND[kind], kwargs=facts, queue=queue)
