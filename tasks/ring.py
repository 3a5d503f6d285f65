"""Ring for jobs that are due: one short message each, with no text of a conversation."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from celery import Celery
from kombu.exceptions import OperationalError

from storage.jobs import DueJob
from tasks.names import TASK_OF_KIND

log = logging.getLogger(__name__)


def ring(app: Celery, due: Iterable[DueJob], *, level: int = logging.WARNING) -> int:
    """Publish a message per job and give how many went out.

    A broker that is away is no error, only a line in the log at `level`: the reconciler rings
    again.
    """
    rung = 0
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
            log.log(level, "broker not reached (%s); the reconciler will ring", reason)
            break
        rung += 1
    return rung
