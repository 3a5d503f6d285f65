"""Whether the broker answers, how long its queues are, and who works them."""

from __future__ import annotations

from typing import Any

from celery import Celery

from afterturn.doctor.finding import Finding, within
from afterturn.transport import TransportMissing, check_transport
from tasks.names import QUEUES, RECONCILE, TASK_OF_KIND
from tasks.settings import celery_settings
from workers.urls import masked_url

SECONDS = 3.0
"""Longest wait for one answer of the broker or of the workers."""

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
    try:
        check_transport(url)
    except TransportMissing as error:
        return [Finding.fail(_BROKER, f"{masked_url(url)}: {error.problem}", error.advice)]
    app = _application(url)
    try:
        try:
            lengths = within(SECONDS, lambda: _queue_lengths(app))
        except Exception as error:  # noqa: BLE001 - every driver has errors of its own
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            return [
                Finding.fail(
                    _BROKER,
                    f"{masked_url(url)}: {masked_url(reason) if '://' in reason else reason}",
                    "start it, or correct broker_url in the configuration or BROKER_URL; turns "
                    "are stored meanwhile and worked later",
                )
            ]
        return [Finding.ok(_BROKER, masked_url(url)), _lengths(lengths), _workers(app)]
    finally:
        app.close()


def _application(url: str) -> Celery:
    app = Celery("afterturn-doctor", set_as_current=False)
    app.conf.update(celery_settings(url))
    app.conf.broker_connection_timeout = SECONDS
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        "socket_connect_timeout": SECONDS,
        "socket_timeout": SECONDS,
    }
    return app


def _queue_lengths(app: Celery) -> dict[str, int]:
    """Messages in each queue; none in one that does not exist yet."""
    lengths: dict[str, int] = {}
    with app.connection_for_read() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=int(SECONDS))
        for name in QUEUES:
            # One channel each: asking for a queue that is not there closes it.
            channel: Any = connection.channel()
            try:
                lengths[name] = channel.queue_declare(name, passive=True).message_count
            except connection.channel_errors:
                lengths[name] = 0
    return lengths


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
