"""Whether the broker answers, how long its queues are, and who works them."""

from __future__ import annotations

from celery import Celery

from afterturn.broker import SECONDS, BrokerSilent, broker_application, queue_lengths
from afterturn.doctor.finding import Finding, within
from afterturn.transport import TransportMissing
from tasks.names import QUEUES, RECONCILE, TASK_OF_KIND
from workers.settings.urls import masked_url

_REPLIES_SECONDS = 1.0
WORKED_QUEUES = tuple(
    queue
    for queue in QUEUES
    if any(task.startswith(f"{queue}.") for task in (*TASK_OF_KIND.values(), RECONCILE))
)
"""The queues that have a task in this version: a message in any other would be a mistake."""

_BROKER, _QUEUES, _WORKERS = "broker", "queues", "workers"


def check_broker(url: str | None) -> list[Finding]:
    """What was found of the broker at `url`; None means that none is configured."""
    if url is None:
        return [Finding.ok(_BROKER, "none: `afterturn up` looks for jobs itself")]
    place = masked_url(url)
    try:
        with broker_application(url) as app:
            lengths = queue_lengths(app)
            return [Finding.ok(_BROKER, place), _lengths(lengths), _workers(app)]
    except TransportMissing as error:
        return [Finding.fail(_BROKER, f"{place}: {error.problem}", error.advice)]
    except BrokerSilent as error:
        return [
            Finding.fail(
                _BROKER,
                f"{place}: {error}",
                "start it, or correct broker_url in the configuration or BROKER_URL; turns "
                "are stored meanwhile and worked later",
            )
        ]


def _lengths(lengths: dict[str, int]) -> Finding:
    waiting = [f"{name} {length}" for name, length in lengths.items() if length]
    return Finding.ok(_QUEUES, f"messages: {', '.join(waiting)}" if waiting else "no message waits")


def _workers(app: Celery) -> Finding:
    start = f"start one: `afterturn worker --queues {','.join(WORKED_QUEUES)}`"
    try:
        answers = within(
            SECONDS, lambda: app.control.inspect(timeout=_REPLIES_SECONDS).active_queues()
        )
    except Exception as error:  # noqa: BLE001 - every driver has errors of its own
        return Finding.warn(_WORKERS, f"could not be asked ({type(error).__name__})", start)
    if not answers:
        return Finding.warn(_WORKERS, "none answered, so jobs wait", start)
    served = {queue["name"] for queues in answers.values() for queue in queues}
    names = ", ".join(sorted(answers))
    unserved = [name for name in WORKED_QUEUES if name not in served]
    if unserved:
        return Finding.warn(
            _WORKERS,
            f"{names} answered; nobody works {', '.join(unserved)}",
            f"start one: `afterturn worker --queues {','.join(unserved)}`",
        )
    return Finding.ok(_WORKERS, f"{names} answered and work every queue that has tasks")
