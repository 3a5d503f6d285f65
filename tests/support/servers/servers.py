"""Real Redis and PostgreSQL servers for tests, each in a directory and on a port of its own.

A server's program is the one on PATH, else the one that a wheel of the test extras carries. A test
that stops, kills or pauses a server starts its own; all others share one
(`tests.support.servers.shared_servers`).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import ClassVar

import psycopg

from tests.support.servers.binaries import postgres_programs, redis_program, unprivileged_account
from tests.support.servers.server_program import ServerProgram, ServerUnavailableError

REDIS_DATABASES = 64


class RedisServer(ServerProgram):
    """A Redis of our own. With `append_only` it keeps what it has over a kill."""

    kind = "Redis"
    ending = signal.SIGTERM
    last_resort = signal.SIGKILL

    def __init__(self, *, append_only: bool = False, life_line: Path | None = None) -> None:
        self._executable = redis_program()
        self._append_only = append_only
        super().__init__(life_line=life_line)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.directory),
            "save": "",
            "appendonly": "yes" if self._append_only else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "databases": str(REDIS_DATABASES),
        }
        words = [str(self._executable)]
        for name, value in settings.items():
            words += [f"--{name}", value]
        return words

    def _is_answering(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64) == b"+PONG\r\n"
        except OSError:
            return False


class PostgresServer(ServerProgram):
    """A PostgreSQL cluster of our own, superuser `postgres`, no password.

    What is committed outlives `kill`, though not a crash of the machine: nothing is flushed to
    disk, which makes a commit several times faster.
    """

    kind = "PostgreSQL"
    ending = signal.SIGINT
    last_resort = signal.SIGQUIT

    _SETTINGS: ClassVar[dict[str, str]] = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "200",
        "shared_buffers": "64MB",
        "fsync": "off",
        "full_page_writes": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "512MB",
    }

    def __init__(self, *, life_line: Path | None = None) -> None:
        self._programs = postgres_programs()
        super().__init__(life_line=life_line)
        if self.user is not None:
            shutil.chown(self.directory, self.user)
            if not self._may_run_programs():
                self._programs = self._copy_of_programs()

    @property
    def user(self) -> str | None:
        # PostgreSQL refuses to run as root.
        return unprivileged_account() if os.geteuid() == 0 else None

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def _cluster(self) -> Path:
        return self.directory / "cluster"

    def start(self) -> None:
        if not self._cluster.exists():
            self._initialise()
        super().start()

    def _initialise(self) -> None:
        words = ["initdb", "-D", str(self._cluster), "-U", "postgres", "--auth=trust"]
        words += ["--encoding=UTF8", "--no-sync", "--no-instructions"]
        made = self._run(*words, "--locale=C.UTF-8")
        if made.returncode != 0:
            made = self._run(*words, "--locale=C")
        if made.returncode != 0:
            raise ServerUnavailableError(f"PostgreSQL's initdb failed:\n{made.stdout}")

    def _run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._programs / name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
            check=False,
            user=self.user,
            group=self.group,
            extra_groups=None if self.group is None else (),
        )

    def _may_run_programs(self) -> bool:
        try:
            return self._run("postgres", "--version").returncode == 0
        except PermissionError:
            return False

    def _copy_of_programs(self) -> Path:
        # A wheel in root's home is out of the other account's reach; its files can be moved.
        wheel = self._programs.parent.parent
        libraries = wheel.with_name(f"{wheel.name}.libs")
        if not libraries.exists():
            raise ServerUnavailableError(
                f"The account {self.user} cannot run {self._programs}/postgres: "
                "let it, run the tests as another account, or name a server in DATABASE_URL"
            )
        target = self.directory / "programs"
        for folder in (self._programs.parent, libraries):
            shutil.copytree(folder, target / folder.relative_to(wheel.parent))
        for path in (target, *target.rglob("*")):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        return target / self._programs.relative_to(wheel.parent)

    def _command(self) -> list[str]:
        words = [str(self._programs / "postgres"), "-D", str(self._cluster), "-p", str(self.port)]
        for name, value in self._SETTINGS.items():
            words += ["-c", f"{name}={value}"]
        return words

    def _is_answering(self) -> bool:
        try:
            place = f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"
            psycopg.connect(place, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True
