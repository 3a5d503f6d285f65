"""What can be known of compose.yaml without an engine that runs it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import entry_points
from typing import Any, TypeAlias

import pytest
import yaml
from celery.bin.celery import celery as celery_command
from click import Context
from tornado.options import options as flower_options

from tasks.names import QUEUES
from tests.processes import PROJECT, Processes

Service: TypeAlias = dict[str, Any]

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())
SERVICES: dict[str, Service] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("afterturn")}
WORKERS = {name: one for name, one in OURS.items() if "--queues" in one["command"]}

MODEL_CALL_SECONDS = 660
"""A job's deadline with one model: ceiling 600 s and 60 s more (ENGINE.md §10)."""


def words(service: Service) -> list[str]:
    command: str = service["command"]
    return command.split()


def seconds(duration: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    return sum(int(n) * units[unit] for n, unit in re.findall(r"(\d+)([smh])", duration))


def test_the_services_are_those_of_a_deployment() -> None:
    assert set(SERVICES) == {
        "postgres", "redis", "migrate", "worker", "worker-batch", "beat", "flower",
    }  # fmt: skip
    assert set(OURS) == set(SERVICES) - {"postgres", "redis"}


def test_every_queue_has_exactly_one_kind_of_worker() -> None:
    served = [words(worker)[words(worker).index("--queues") + 1] for worker in WORKERS.values()]
    assert sorted(",".join(served).split(",")) == sorted(QUEUES)


def test_batch_work_does_not_share_workers_with_live_turns() -> None:
    [live] = [worker for worker in WORKERS.values() if "turns" in worker["command"]]
    assert not {"batch", "prune", "recompact"} & set(words(live)[-1].split(","))


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_program_of_a_service_is_one_that_the_image_has(name: str) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    installed = {script.name for script in entry_points(group="console_scripts")}
    assert words(OURS[name])[0] in {*project["scripts"], *installed}


@pytest.mark.parametrize("name", ["beat", "flower"])
def test_celery_knows_what_it_is_told(name: str) -> None:
    program, app_option, app, command, *arguments = words(SERVICES[name])
    module = {"beat": "schedules.app", "flower": "tasks.app"}[name]
    assert (program, app_option, app) == ("celery", "-A", module)
    known = celery_command.get_command(Context(celery_command), command)
    assert known is not None
    of_command = {option for parameter in known.params for option in parameter.opts}
    of_flower = {f"--{option.replace('_', '-')}" for option in flower_options}
    for argument in arguments:
        if argument.startswith("-"):
            option = argument.partition("=")[0]
            expected = of_flower if command == "flower" else of_command
            assert option.replace("_", "-") in expected


@pytest.mark.parametrize("name", sorted(set(OURS) - {"beat", "flower"}))
def test_afterturn_knows_what_it_is_told(name: str, processes: Processes) -> None:
    program, *arguments = words(OURS[name])
    assert program == "afterturn"
    call = "import sys; from afterturn.cli import main; sys.argv[0] = 'afterturn'; main()"
    helped = processes.python("-c", call, *arguments, "--help")
    assert helped.wait() == 0, helped.output


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_services_find_database_broker_and_configuration(name: str) -> None:
    environment = OURS[name]["environment"]
    postgres = SERVICES["postgres"]["environment"]
    assert environment["DATABASE_URL"] == (
        f"postgresql://{postgres['POSTGRES_USER']}:{postgres['POSTGRES_PASSWORD']}"
        f"@postgres/{postgres['POSTGRES_DB']}"
    )
    assert environment["BROKER_URL"] == "redis://redis:6379/0"
    [configuration] = OURS[name]["configs"]
    assert environment["AFTERTURN_CONFIG"] == configuration["target"]
    default = re.search(r":-(.*)}", COMPOSE["configs"][configuration["source"]]["file"])
    assert default is not None
    assert (PROJECT / default[1]).is_file()


@pytest.mark.parametrize("name", sorted(set(OURS) - {"migrate"}))
def test_nothing_of_ours_runs_before_the_database_is_migrated_and_redis_answers(name: str) -> None:
    assert OURS[name]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"},
        "redis": {"condition": "service_healthy"},
    }
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"migrate"}))
def test_whatever_stays_up_has_its_health_checked(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(WORKERS))
def test_a_stopping_worker_has_time_to_end_its_model_call(name: str) -> None:
    assert seconds(WORKERS[name]["stop_grace_period"]) >= MODEL_CALL_SECONDS


@pytest.mark.parametrize("name", sorted(WORKERS))
def test_the_health_of_a_worker_is_asked_under_its_own_name(name: str) -> None:
    command = words(WORKERS[name])
    node = command[command.index("--name") + 1]
    assert f"--destination {node}@$$HOSTNAME" in WORKERS[name]["healthcheck"]["test"][-1]


def test_only_workers_are_given_the_keys_of_models() -> None:
    holders = {name for name, one in OURS.items() if "OPENAI_API_KEY" in one["environment"]}
    assert holders == set(WORKERS)


def test_redis_keeps_what_it_is_given() -> None:
    command = SERVICES["redis"]["command"]
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_no_port_is_open_to_other_hosts() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert "127.0.0.1:5555:5555" in ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_image_installs_the_locked_versions_and_does_not_run_as_root() -> None:
    lines = SERVICES["worker"]["build"]["dockerfile_inline"].splitlines()
    assert "RUN pip install --require-hashes -r requirements.lock" in lines
    assert lines[-1] == "USER afterturn"
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    assert all((PROJECT / source).exists() for sources in copied for source in sources)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {source for sources in copied for source in sources} >= {
        *packages,
        project["project"]["readme"],
        *project["project"]["license-files"],
    }
