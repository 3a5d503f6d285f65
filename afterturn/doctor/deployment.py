"""Checks of the installation, its configuration, and the broker with its workers."""

from __future__ import annotations

import platform
from pathlib import Path

from celery import Celery

from afterturn import installation
from afterturn.broker import (
    BrokerSilent,
    TransportMissing,
    broker_application,
    queue_lengths,
    queues_of_workers,
)
from afterturn.doctor.finding import Finding
from afterturn.failures import problems_place
from tasks.names import QUEUES, RECONCILE, TASK_OF_KIND
from workers.setting_errors import SettingsError
from workers.settings import Settings
from workers.settings_file import load_settings, settings_path
from workers.urls import masked_url

_BUILT_ON = ("celery", "kombu", "sqlalchemy", "openai")


def check_packages() -> list[Finding]:
    """Check that Python loads our packages, and list the versions of what they build on."""
    return [_names(), Finding.ok("versions", _versions())]


def _names() -> Finding:
    check = "packages"
    misplaced = installation.misplaced_packages()
    if misplaced:
        listed = ", ".join(f"{package} from {place}" for package, place in misplaced.items())
        return Finding.fail(
            check,
            f"Python loads {listed}",
            "install afterturn in an environment of its own, or start from another folder",
        )
    if (warning := installation.warning()) is not None:
        problem, _, advice = warning.partition("; ")
        return Finding.warn(check, problem, advice)
    return Finding.ok(check, "no other distribution ships one of the same name")


def _versions() -> str:
    known = [f"{name} {installation.version_of(name)}" for name in (installation.OURS, *_BUILT_ON)]
    return ", ".join([*known, f"Python {platform.python_version()}"])


CHECK = "configuration"


def read_configuration(path: Path | None) -> tuple[Settings | None, Finding]:
    """Return the settings, None where they cannot be used, and the finding."""
    place = settings_path(path)
    try:
        settings = load_settings(path)
    except SettingsError as error:
        return None, Finding.fail(
            CHECK,
            "; ".join(str(problem) for problem in error.problems),
            f"correct {problems_place(error)}; `afterturn config check` says when it is "
            "good, `afterturn config show-example` explains every key",
        )
    if not place.exists():
        return settings, Finding.ok(CHECK, f"no file at {place}, defaults hold")
    return settings, Finding.ok(CHECK, str(place))


_REPLIES_SECONDS = 1.0
WORKED_QUEUES = tuple(
    queue
    for queue in QUEUES
    if any(task.startswith(f"{queue}.") for task in (*TASK_OF_KIND.values(), RECONCILE))
)
"""The queues that have tasks of their own: without a worker on each, jobs wait."""

_BROKER, _QUEUES, _WORKERS = "broker", "queues", "workers"


def check_broker(url: str | None) -> list[Finding]:
    """Check the broker at `url` and its workers; None means that none is configured."""
    if url is None:
        return [Finding.ok(_BROKER, "none: `afterturn up` polls the jobs table")]
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
        answers = queues_of_workers(app, seconds=_REPLIES_SECONDS)
    except BrokerSilent as error:
        return Finding.warn(_WORKERS, f"could not be asked ({error})", start)
    if not answers:
        return Finding.warn(_WORKERS, "none answered, so jobs wait", start)
    served = {queue for queues in answers.values() for queue in queues}
    names = ", ".join(sorted(answers))
    unserved = [name for name in WORKED_QUEUES if name not in served]
    if unserved:
        return Finding.warn(
            _WORKERS,
            f"{names} answered; nobody works {', '.join(unserved)}",
            f"start one: `afterturn worker --queues {','.join(unserved)}`",
        )
    return Finding.ok(_WORKERS, f"{names} answered and work every queue that has tasks")
