"""Where a demo plays: a database, the embedded worker, and a gateway."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from producers.gateway import Gateway
from storage.engine import Database
from tasks.embedded import EmbeddedWorker
from workers.settings import Settings, SettingsSource

POLL_SECONDS = 0.02
"""How often the worker looks for jobs. A person takes longer to read than the usual pause; here
nobody reads."""


@dataclass(frozen=True, slots=True)
class Stage:
    """All that a play needs. `database` is that of the worker."""

    settings: Settings
    database: Database
    gateway: Gateway
    worker: EmbeddedWorker


@contextmanager
def open_stage(base: Settings, database_url: str | None) -> Iterator[Stage]:
    """Start an embedded worker and a gateway on a database of their own.

    Without `database_url` that is a SQLite file which is removed afterwards. The broker of `base`
    is left alone: a demo takes no jobs from a deployment. Raises `StorageError`.
    """
    with ExitStack() as stack:
        if database_url is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="afterturn-demo-"))
            database_url = f"sqlite:///{Path(folder, 'demo.db').as_posix()}"
        settings = base.model_copy(
            update={
                "database_url": database_url,
                "broker_url": None,
                "worker": base.worker.model_copy(update={"poll_seconds": POLL_SECONDS}),
            }
        )
        gateway = stack.enter_context(Gateway(settings, owner="demo"))
        worker = EmbeddedWorker(SettingsSource.fixed(settings))
        stack.callback(worker.stop)
        worker.start()
        yield Stage(settings, worker.context.database, gateway, worker)
