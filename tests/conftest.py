"""What every test may ask for: real servers, databases of its own, processes of its own.

| fixture | gives |
|---|---|
| `redis_url` | an empty Redis database that no other test uses meanwhile |
| `postgres_url` | an empty PostgreSQL database, dropped after the test |
| `sqlite_url` | a SQLite file that does not exist yet |
| `database_url` | the test once with `sqlite_url` and with `postgres_url` (see `tests.tiers`) |
| `own_redis`, `own_postgres` | a server of the test's own, to stop, kill or pause |
| `processes` | starts Python processes; they end with the test |
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy.engine import make_url

from tests import tiers
from tests.support.programs.processes import OURS_IN_ENVIRONMENT, Processes
from tests.support.servers.databases import fresh_database
from tests.support.servers.server_program import ServerUnavailableError
from tests.support.servers.servers import PostgresServer, RedisServer
from tests.support.servers.shared_servers import RUN_DIRECTORY, Run

RUN = pytest.StashKey[Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the deep tier, as `make soak` does")


def pytest_configure(config: pytest.Config) -> None:
    tiers.load(soak=config.getoption("--soak"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts programs in the background so, and the programs of tests would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    config.stash[RUN] = (
        Run.begin() if workerinput is None else Run.join(Path(workerinput[RUN_DIRECTORY]))
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        return
    items[:], left = tiers.select(items)
    if left:
        config.hook.pytest_deselected(items=left)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[RUN_DIRECTORY] = str(node.config.stash[RUN].directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].end()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(OURS_IN_ENVIRONMENT):
            monkeypatch.delenv(name)
    # Model servers of tests are on this host, whatever proxy the machine has.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@pytest.fixture(scope="session")
def _redis_of_this_process(pytestconfig: pytest.Config) -> str:
    run = pytestconfig.stash[RUN]
    server = make_url(_url_or_failure(run.redis_url))
    # Tests that run at the same time in other processes must not see each other's keys.
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    number = int(server.database or 0) + place
    url = server.set(database=str(number)).render_as_string(hide_password=False)
    with redis.Redis.from_url(url) as client:
        if run.broker_url and client.dbsize():
            pytest.fail(
                f"Database {number} of the Redis in BROKER_URL holds keys, and tests would remove "
                "them: name an empty one, or unset BROKER_URL to let the tests start their own",
                pytrace=False,
            )
    return url


@pytest.fixture
def redis_url(_redis_of_this_process: str) -> Iterator[str]:
    """Yield an empty Redis database, as a broker URL."""
    with redis.Redis.from_url(_redis_of_this_process) as client:
        client.flushdb()
        yield _redis_of_this_process
        client.flushdb()


@pytest.fixture(scope="session")
def _postgres_of_this_run(pytestconfig: pytest.Config) -> str:
    return _url_or_failure(pytestconfig.stash[RUN].postgres_url)


@pytest.fixture
def postgres_url(_postgres_of_this_run: str) -> Iterator[str]:
    """Yield an empty PostgreSQL database, as SQLAlchemy takes it."""
    with fresh_database(_postgres_of_this_run) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Return a SQLite file that does not exist yet, as SQLAlchemy takes it."""
    return f"sqlite:///{tmp_path / 'afterturn.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Return an empty database of each kind that storage runs on."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """Yield a running Redis that nobody else uses; it forgets everything when killed."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """Yield a running PostgreSQL that nobody else uses; it takes about a second to make."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Starts Python processes; whatever is left of them is killed when the test ends."""
    started = Processes(tmp_path)
    yield started
    started.close()


def _url_or_failure(server_url: Callable[[], str]) -> str:
    try:
        return server_url()
    except ServerUnavailableError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)
