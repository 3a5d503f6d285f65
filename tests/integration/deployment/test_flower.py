"""Flower as `afterturn flower` serves it: what it shows, and to whom."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from afterturn.credentials import Credentials
from producers import Gateway
from tests.support.model.behaviours import Status
from tests.support.model.server import ModelServer
from tests.support.observing.waiting import wait_until
from tests.support.programs.browser import Browser, browsers
from tests.support.programs.processes import Processes
from tests.support.servers.servers import RedisServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import gateway_on, migrated

pytestmark = pytest.mark.xdist_group("flower")

PERSON = "operator:correct horse"
CANARY = "xylophone-canary"
EVIL = "<img src=x onerror=alert(1)>"
CALL = "import sys; from afterturn.cli import main; sys.argv[0] = 'afterturn'; main()"
CLOSED = ("/", "/workers", "/tasks", "/broker", "/api/tasks", "/api/workers", "/metrics",
          "/healthcheck", "/api/queues/length", "/metrics?x=1")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watched:
    """A running Flower over a worker that has done something of everything."""

    port: int

    def get(self, path: str, person: str | None = PERSON) -> tuple[int, str]:
        return self.ask("GET", path, person)

    def ask(self, method: str, path: str, person: str | None = PERSON) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {}
        if person is not None:
            headers["Authorization"] = "Basic " + b64encode(person.encode()).decode()
        connection.request(method, path, body="{}" if method == "POST" else None, headers=headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode()
        connection.close()
        return status, text

    def tasks(self) -> list[dict[str, Any]]:
        status, text = self.get("/api/tasks")
        assert status == 200
        return list(json.loads(text).values())

    def url(self, path: str) -> str:
        return f"http://{PERSON.replace(' ', '%20')}@127.0.0.1:{self.port}{path}"


def refused(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Passes that are tried again because the model refused the key."""
    return [task for task in tasks if task["state"] == "RETRY" and "auth" in task["exception"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flower")


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """Yield a Redis that no other test empties meanwhile."""
    with RedisServer() as server:
        yield server.url


@pytest.fixture(scope="module")
def watched(folder: Path, broker: str) -> Iterator[Watched]:
    """Turns of two sessions, one of them against a model that refuses the key."""
    url = f"sqlite:///{folder / 'afterturn.db'}"
    processes = Processes(folder)
    (folder / "people").write_text(f"# who may look\n{PERSON}\n")
    with migrated(url), ModelServer() as model:
        model.always(Status(401))
        config = folder / "config.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "compression": {
                        "protect_last_n": 4,
                        "threshold_tokens": 3000,
                        "micro_compact_min_tokens": 300,
                    },
                    "auxiliary": {"compression": {"base_url": model.base_url, "model": "m"}},
                }
            )
        )
        env = {
            "DATABASE_URL": url,
            "BROKER_URL": broker,
            "AFTERTURN_CONFIG": str(config),
        }
        flower = processes.python(
            *("-c", CALL, "flower", "--listen", "127.0.0.1:0"),
            *("--credentials", str(folder / "people")),
            env=env,
        )
        flower.wait_for("Flower at http://127.0.0.1:")
        port = int(flower.output.partition("Flower at http://127.0.0.1:")[2].partition(".")[0])
        found = Watched(port)
        worker = processes.python("-c", CALL, "worker", "--events", "--name", "live", env=env)
        worker.wait_for("ready")
        wait_until(lambda: "live@" in found.get("/api/workers?refresh=1")[1], "the worker is seen")
        with gateway_on(url, broker_url=broker) as gateway:
            say(gateway, "airline-1")
            say(gateway, EVIL)
            wait_until(lambda: bool(refused(found.tasks())), "a pass was refused by the model")
        yield found
    processes.close()


def say(gateway: Gateway, session_id: str) -> None:
    session = gateway.open_session(session_id, context_window=128_000)
    for number in range(6):
        said = turn(number)
        said[0]["content"] += f" {CANARY}"
        gateway.finalize_turn(session, said)


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize("person", [None, "operator:wrong horse", "operator", ":"])
def test_nothing_is_shown_without_the_password(
    watched: Watched, path: str, person: str | None
) -> None:
    status, text = watched.get(path, person)
    assert status == 401
    assert "airline-1" not in text
    assert "flower_events" not in text


@pytest.mark.parametrize("path", CLOSED)
def test_with_the_password_everything_is_shown(watched: Watched, path: str) -> None:
    assert watched.get(path)[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/worker/shutdown/live@x",
        "/api/worker/pool/grow/live@x",
        "/api/worker/queue/cancel-consumer/live@x?queue=turns",
        "/api/task/send-task/turns.finalize",
        "/api/task/async-apply/turns.finalize",
        "/api/task/apply/turns.finalize",
        "/api/task/revoke/1",
        "/api/task/abort/1",
        "/api/task/rate-limit/turns.finalize",
        "/api/task/timeout/turns.finalize",
    ],
)
def test_nothing_can_be_changed(watched: Watched, path: str) -> None:
    assert watched.ask("POST", path)[0] == 403


def test_arguments_name_session_trigger_and_job_and_hold_no_text(watched: Watched) -> None:
    tasks = [task for task in watched.tasks() if task["name"] == "turns.finalize"]
    assert tasks
    for task in tasks:
        assert task["kwargs"].startswith("{'job_id': ")
        assert "'trigger': 'turn'" in task["kwargs"]
        assert "'session': 'airline-1'" in task["kwargs"] or EVIL in task["kwargs"]
    assert CANARY not in watched.get("/api/tasks")[1]


def test_a_pass_that_is_repeated_says_of_which_session_why_and_when(watched: Watched) -> None:
    reasons = [task["exception"] for task in refused(watched.tasks())]
    assert reasons
    for reason in reasons:
        assert "TryFailed('session " in reason
        assert "HTTP 401" in reason
        assert "again in " in reason


def test_queues_and_who_works_them_are_shown(watched: Watched) -> None:
    lengths = json.loads(watched.get("/api/queues/length")[1])["active_queues"]
    assert {"turns", "micro", "batch", "maintenance"} <= {queue["name"] for queue in lengths}
    workers = json.loads(watched.get("/api/workers?refresh=1")[1])
    [worker] = workers.values()
    assert {"turns", "micro"} <= {queue["name"] for queue in worker["active_queues"]}


BROWSERS = [pytest.param(program, id=program.name) for program in browsers()]
NO_BROWSER = pytest.param(None, marks=pytest.mark.skip(reason="no browser on this machine"))


@pytest.mark.soak
@pytest.mark.parametrize("program", BROWSERS or [NO_BROWSER])
def test_a_person_sees_what_ran_for_whom_and_why_it_is_repeated(
    watched: Watched, program: Path
) -> None:
    browser = Browser(program)
    tasks = browser.text(watched.url("/tasks"))
    assert "turns.finalize" in tasks
    assert "airline-1, for turn, job " in tasks
    assert ": m: auth (m at 127.0.0.1:" in tasks
    assert EVIL not in tasks
    [repeated, *_] = refused(watched.tasks())
    detail = browser.text(watched.url(f"/task/{repeated['uuid']}"))
    assert ": m: auth (m at 127.0.0.1:" in detail
    assert EVIL not in detail
    assert "Retry(Retry" not in detail
    queues = browser.text(watched.url("/broker"))
    assert all(name in queues for name in ("turns", "micro", "batch", "maintenance"))
    workers = browser.text(watched.url("/workers"))
    assert "live@" in workers
    for page, name in (
        ("/tasks", "flower-tasks"),
        (f"/task/{repeated['uuid']}", "flower-task"),
        ("/workers", "flower-workers"),
        ("/broker", "flower-queues"),
    ):
        assert browser.picture(watched.url(page), name).stat().st_size > 10_000


def test_only_a_password_opens_it_to_other_hosts(processes: Processes, sqlite_url: str) -> None:
    env = {"DATABASE_URL": sqlite_url, "BROKER_URL": "redis://127.0.0.1:1/0"}
    refused = processes.python("-c", CALL, "flower", "--listen", "0.0.0.0:0", env=env)
    assert refused.wait() == 2
    assert "other hosts can reach 0.0.0.0" in refused.output


def test_a_password_that_flower_cannot_compare_is_refused(
    processes: Processes, sqlite_url: str, tmp_path: Path
) -> None:
    people = tmp_path / "people"
    people.write_text("operator:ein schlüssel\n", encoding="utf-8")
    env = {"DATABASE_URL": sqlite_url, "BROKER_URL": "redis://127.0.0.1:1/0"}
    refused = processes.python("-c", CALL, "flower", "--credentials", str(people), env=env)
    assert refused.wait() == 3
    assert "other characters than ASCII" in refused.output
    assert "schl" not in refused.output


def test_a_password_of_this_run_is_made_up_where_none_is_given(
    processes: Processes, sqlite_url: str, redis_url: str
) -> None:
    env = {"DATABASE_URL": sqlite_url, "BROKER_URL": redis_url}
    flower = processes.python("-c", CALL, "flower", "--listen", "127.0.0.1:0", env=env)
    flower.wait_for("Ctrl-C stops.")
    port = int(flower.output.partition("http://127.0.0.1:")[2].partition(".")[0])
    password = flower.output.partition("password ")[2].partition(". Ctrl")[0]
    assert Watched(port).get("/", None)[0] == 401
    assert Watched(port).get("/", f"afterturn:{password}")[0] == 200
    flower.terminate()
    assert flower.wait() == 0


def test_credentials_are_never_shown() -> None:
    assert "horse" not in repr(Credentials((PERSON,)))
