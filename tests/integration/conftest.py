"""A database of each kind that lives as long as the run and is emptied for each test.

Making a database and its tables takes a second on PostgreSQL; emptying them takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from producers import Gateway
from storage.engine import Database
from tests.conftest import RUN
from tests.support.model.server import ModelServer
from tests.support.servers.databases import fresh_database
from tests.support.sessions.gateways import emptied, gateway_on, migrated, url_of
from tests.support.workers.workplace import structured


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def lasting_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """Yield a database whose tables are made; `database` empties it."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path_factory.mktemp('lasting') / 'afterturn.db'}"
        else:
            server = request.config.stash[RUN].postgres_url()
            url = stack.enter_context(fresh_database(server))
        yield stack.enter_context(migrated(url))


@pytest.fixture
def database(lasting_database: Database) -> Database:
    """Return an empty database of each kind, its tables made. Other tests use the same one
    later."""
    emptied(lasting_database)
    return lasting_database


@pytest.fixture
def gateway(database: Database) -> Iterator[Gateway]:
    """Yield a gateway on `database`, with connections of its own."""
    with gateway_on(url_of(database)) as opened:
        yield opened


@pytest.fixture(scope="module")
def lasting_model() -> Iterator[ModelServer]:
    """Yield a model server that lives as long as the tests of a file; `model` makes it as new."""
    with ModelServer() as running:
        yield running


@pytest.fixture
def model(
    lasting_model: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ModelServer:
    """Return a model that answers in sections, until a test says otherwise."""
    # It speaks plain HTTP. Reading the host's certificates takes longer than all else that a
    # worker does at its start.
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    lasting_model.forget()
    lasting_model.answer(structured)
    return lasting_model
