"""Flower as an operator needs it: by password, read-only, everything closed to others."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tornado.web
from celery import Celery
from flower.app import Flower, rewrite_handler
from flower.command import apply_env_options, extract_settings, setup_logging
from flower.options import options
from flower.urls import settings as site_settings
from flower.views.monitor import Healthcheck, Metrics

from afterturn.credentials import Credentials, Place

COLUMNS = "name,uuid,state,kwargs,result,received,runtime,worker"
"""What a line of the list of tasks shows."""

FORGET_WORKERS_SECONDS = 3600
"""How long a worker that has gone is shown: each has a name of its own."""

_OURS = re.compile(r"""(?:TryFailed|JobDead)\(('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_WORDS = {
    "session": "{}",
    "trigger": "for {}",
    "job_id": "job {}",
    "queue": "in {}",
    "every_seconds": "every {} s",
}


class ClosedMetrics(Metrics):  # type: ignore[misc] # Flower has no types
    """Flower's own metrics, for those who have signed in."""

    @tornado.web.authenticated
    async def get(self) -> None:
        await super().get()


class ClosedHealthcheck(Healthcheck):  # type: ignore[misc] # Flower has no types
    """Flower's health check, for those who have signed in."""

    @tornado.web.authenticated
    async def get(self) -> None:
        await super().get()


@dataclass(frozen=True, slots=True)
class Site:
    """Where Flower is served, and to whom. `certificate` and `key` are PEM files."""

    place: Place
    credentials: Credentials | None
    certificate: Path | None = None
    key: Path | None = None


def knows_people() -> bool:
    """Return whether FLOWER_AUTH has people sign in elsewhere (OAuth), without a password here."""
    apply_env_options()
    return bool(options.auth)


def make_site(app: Celery, site: Site) -> Flower:
    """Make Flower for `app`, not yet listening.

    Raises `SystemExit` for options of its own that cannot be used (FLOWER_… in the environment).
    """
    apply_env_options()
    options.address = site.place.host
    options.port = site.place.port
    if site.credentials is not None:
        options.basic_auth = list(site.credentials.pairs)
    if site.certificate is not None and site.key is not None:
        options.certfile, options.keyfile = str(site.certificate), str(site.key)
    options.read_only = True
    options.tasks_columns = COLUMNS
    options.format_task = readable
    options.purge_offline_workers = FORGET_WORKERS_SECONDS
    extract_settings()
    setup_logging()
    flower = Flower(capp=app, options=options, **site_settings)
    flower.add_handlers(".*", closed_handlers(options.url_prefix))
    return flower


def closed_handlers(prefix: str | None) -> list[Any]:
    """Return the handlers that go before Flower's own."""
    handlers = [(r"/metrics", ClosedMetrics), (r"/healthcheck", ClosedHealthcheck)]
    return [rewrite_handler(one, prefix) for one in handlers] if prefix else handlers


def readable(task: Any) -> Any:
    """Rewrite a task as people read it: which session, what for, which job, and why it failed."""
    task.args = ""
    task.kwargs = readable_arguments(task.kwargs)
    task.exception = readable_reason(task.exception)
    # The list has no column for a reason that says so, and no result where there is one.
    task.result = task.exception or readable_result(task.result)
    return task


def readable_arguments(kwargs: object) -> str:
    """Return a notification's arguments as `airline-1, for micro, job 12, in micro`."""
    try:
        given = ast.literal_eval(kwargs) if isinstance(kwargs, str) else kwargs
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return "(cut off)"
    if not isinstance(given, dict):
        return ""
    return ", ".join(words.format(given[name]) for name, words in _WORDS.items() if given.get(name))


def readable_result(result: object) -> object:
    """Return a task's result without the quotes."""
    try:
        return ast.literal_eval(result) if isinstance(result, str) else result
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return result


def readable_reason(exception: object) -> object:
    """Return the sentence of an error of ours, out of whatever it is wrapped in."""
    found = _OURS.search(exception) if isinstance(exception, str) else None
    if found is None:
        return exception
    try:
        return ast.literal_eval(found[1])
    except (ValueError, SyntaxError):
        return exception
