"""Import the heavy parts of a gateway when they are first needed.

`from afterturn import Gateway` loads only names and signatures. The functions below load the rest:
database and rules when a gateway is constructed, each of the others at the first call that needs
it. No other module of this package imports inside a function.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis
    from celery import Celery

    from producers.operations import Operations
    from storage.engine import Database
    from storage.jobs import DueJob
    from workers.provider_errors.errors import ApiError
    from workers.settings import Settings

# ruff: noqa: PLC0415 - the purpose of this module


def open_operations(
    settings: Settings | None, *, owner: str, database: Database | None, actor: str | None
) -> Operations:
    """Open the database and settings of a gateway; loads SQLAlchemy, the settings and the rules."""
    from producers.operations import Operations

    return Operations(settings, owner=owner, database=database, actor=actor)


def open_database(url: str) -> Database:
    """Open the database and make its tables usable; loads Alembic."""
    from storage.migrate import open_ready

    return open_ready(url)


def publishing_app(broker_url: str) -> Celery:
    """Return a Celery application that only publishes; loads Celery and Kombu."""
    from celery import Celery

    from tasks.settings import celery_settings

    app = Celery("afterturn-gateway", set_as_current=False)
    app.conf.update(celery_settings(broker_url, notify_only=True))
    return app


def publish(app: Celery, due: Iterable[DueJob], *, level: int) -> int:
    """Publish one message per job and return how many were sent; loads Celery and Kombu."""
    from tasks.publishing import notify

    return notify(app, due, level=level)


def subscribing_client(broker_url: str) -> redis.Redis | None:
    """Return a client of the broker that can subscribe to pushes, None where it is not Redis.

    Loads Kombu and, for a Redis broker, its driver.
    """
    from tasks.settings import PUBLISH_SETTINGS, is_redis

    if not is_redis(broker_url):
        return None
    import redis

    return redis.Redis.from_url(broker_url, **PUBLISH_SETTINGS)


def recognise_error(error: object) -> ApiError | None:
    """Recognise a provider's error; loads the wordings of all providers."""
    from workers.provider_errors.errors import recognise_error as recognise

    return recognise(error)


def redact(text: str) -> str:
    """Return `text` without its secrets; loads detect-secrets."""
    from workers.redaction import redact as without_secrets

    return without_secrets(text)


def search(
    database: Database, owner: str, query: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Search an owner's sessions; loads the search index."""
    from producers.recall import Recall, answer

    return answer(database, owner, Recall.of(query=query, **options))


def stuck_sentence() -> str:
    """Return the sentence for users whose session cannot be made smaller."""
    from workers.policy.failures import STUCK_SENTENCE

    return STUCK_SENTENCE
