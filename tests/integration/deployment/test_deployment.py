"""The commands of compose.yaml, run as plain processes on real servers with passwords."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
import yaml

from afterturn.container import with_secrets
from afterturn.probe import probe
from tests.support.observing.waiting import wait_until
from tests.support.programs.processes import PROJECT, Child, Processes
from tests.support.servers.databases import fresh_database
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on, rows_of

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("afterturn")}
LASTING = sorted(set(OURS) - {"migrate"})
PROGRAMS = {
    "afterturn": '-c \'import sys; from afterturn.cli import main; sys.argv[0] = "afterturn"; '
    "main()'",
    "celery": "-m celery",
    "python": "",
}
PASSWORD = "p@ss word/%"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass(slots=True)
class Host:
    """Runs the commands of services as the engine would, but for its isolation."""

    processes: Processes
    folder: Path
    database_url: str
    broker_url: str
    ports: dict[str, str] = field(default_factory=dict)
    running: dict[str, Child] = field(default_factory=dict)

    def run(self, name: str, command: str | list[str] | None = None) -> Child:
        """Start the service's own command, or another one in its place."""
        words = command if isinstance(command, list) else shlex.split(command or self.command(name))
        service = OURS[name]
        environment = {key: self.here(value) for key, value in service["environment"].items()}
        environment |= {
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker_url,
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            # As the engine gives each container a name of its own.
            "HOSTNAME": socket.gethostname(),
        }
        return self.processes.python("-m", "afterturn.container", *words, env=environment)

    def command(self, name: str) -> str:
        """Return the service's command with names of its own on this one host."""
        command: str = OURS[name]["command"]
        command = command.replace("--name celery", f"--name {name}")
        command = command.replace("/tmp/beat", str(self.folder / "beat"))
        return self.here(command)

    def check(self, name: str) -> Child:
        """Run the service's health check."""
        kind, *words = OURS[name]["healthcheck"]["test"]
        text = shlex.join(words) if kind == "CMD" else words[0].replace("$$", "$")
        text = text.replace("celery@$HOSTNAME", f"{name}@$HOSTNAME")
        return self.run(name, ["sh", "-c", self.here(text)])

    def here(self, text: str) -> str:
        """Return `text` with this host's places in the place of the container's."""
        for inside, outside in self.ports.items():
            text = re.sub(rf"(0\.0\.0\.0|127\.0\.0\.1):{inside}\b", f"127.0.0.1:{outside}", text)
        text = text.replace("/run/secrets/", f"{self.folder / 'secrets'}/")
        return text.replace("/etc/afterturn/", f"{PROJECT / 'afterturn'}/").replace(
            "config.yaml", "config.example.yaml"
        )


@pytest.fixture
def host(
    tmp_path: Path, processes: Processes, redis_url: str, _postgres_of_this_run: str
) -> Iterator[Host]:
    secrets, programs = tmp_path / "secrets", tmp_path / "bin"
    secrets.mkdir()
    programs.mkdir()
    for name, text in {
        "postgres_password": PASSWORD, "redis_password": PASSWORD,
        "web_people": f"operator:{PASSWORD}", "openai_api_key": "", "openrouter_api_key": "",
    }.items():  # fmt: skip
        (secrets / name).write_text(f"{text}\n")
    for name, how in PROGRAMS.items():
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {how} "$@"\n')
        script.chmod(0o755)
    broker = urlsplit(redis_url)
    with (
        fresh_database(_postgres_of_this_run) as database,
        redis.Redis.from_url(redis_url) as admin,
    ):
        # A person of its own, so that the password is needed and other tests need none.
        admin.acl_setuser(
            "deployed", enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], channels=["*"],
            categories=["+@all"],
        )  # fmt: skip
        try:
            yield Host(
                processes,
                tmp_path,
                database.replace("postgresql+psycopg://", "postgresql://"),
                f"redis://deployed@{broker.netloc}{broker.path}",
                {"5555": str(free_port()), "9464": str(free_port())},
            )
        finally:
            processes.kill_all()
            admin.acl_deluser("deployed")


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_deployment_comes_up_works_is_well_and_stops(host: Host) -> None:
    migrated = host.run("migrate")
    assert migrated.wait() == 0, migrated.output
    started = {name: host.run(name) for name in LASTING}
    for name, child in started.items():
        child.wait_for(
            {"beat": "beat: Starting", "flower": "Flower at", "metrics": "Metrics at"}.get(
                name, " ready."
            )
        )
    with gateway_on(host.database_url, broker_url=with_password(host.broker_url)) as gateway:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, turn(1))
        database = gateway._operations.database
        wait_until(
            lambda: not rows_of(database, "SELECT 1 FROM jobs WHERE state <> 'done'"),
            "the turn is worked",
        )
    checks = {name: host.check(name) for name in LASTING}
    for name, check in checks.items():
        assert check.wait() == 0, f"{name}: {check.output}"
    for name, child in started.items():
        child.terminate()
        assert child.wait() in (0, -signal.SIGTERM), f"{name}: {child.output}"
        assert PASSWORD not in child.output
    checks = {name: host.check(name) for name in LASTING}
    for name, check in checks.items():
        assert check.wait() != 0, f"{name} is reported well and is gone"


def with_password(url: str) -> str:
    given = {"BROKER_URL": url, "BROKER_PASSWORD_FILE": "x"}
    return with_secrets(given, lambda _: PASSWORD)["BROKER_URL"]


def test_a_page_that_does_not_answer_is_not_well() -> None:
    assert probe(f"http://127.0.0.1:{free_port()}/metrics", None).startswith("no answer")
