"""What can be known of compose.yaml and Dockerfile without an engine that runs them."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from celery.bin.celery import celery as celery_command
from click import Context

from afterturn.container import KEYS, PASSWORDS
from tasks.names import QUEUES
from tests.support.programs.processes import PROJECT, Processes

Service: TypeAlias = dict[str, Any]

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())
SERVICES: dict[str, Service] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("afterturn")}
WORKERS = {name: one for name, one in OURS.items() if "--queues" in one["command"]}
DOCKERFILE = (PROJECT / "Dockerfile").read_text().splitlines()

MODEL_CALL_SECONDS = 660
"""A job's deadline with one model: ceiling 600 s and 60 s more."""

CALL = "import sys; from afterturn.cli import main; sys.argv[0] = 'afterturn'; main()"

TEXT, TEXTS, NUMBER, FLAG = (str,), (list,), (int, float), (bool,)
KINDS: dict[str, tuple[type, ...]] = {
    "image": TEXT, "build": TEXT, "user": TEXT, "command": (str, list), "environment": (dict,),
    "secrets": TEXTS, "configs": TEXTS, "ports": TEXTS, "volumes": TEXTS, "tmpfs": TEXTS,
    "depends_on": (dict,), "healthcheck": (dict,), "restart": TEXT, "init": FLAG,
    "read_only": FLAG, "cap_drop": TEXTS, "security_opt": TEXTS, "pids_limit": NUMBER,
    "mem_limit": TEXT, "cpus": NUMBER, "shm_size": TEXT, "logging": (dict,),
    "stop_grace_period": TEXT, "stop_signal": TEXT,
}  # fmt: skip
"""What a service may hold, of the Compose specification, and as what."""

DURATION = r"(\d+[hms])+"
SIZE = r"\d+[kmg]"
PORT = r"127\.0\.0\.1:\d+:\d+"
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def words(service: Service) -> list[str]:
    command: str = service["command"]
    return command.split()


def seconds(duration: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    return sum(int(n) * units[unit] for n, unit in re.findall(r"(\d+)([smh])", duration))


def option(service: Service, name: str) -> str:
    return words(service)[words(service).index(name) + 1]


def test_the_file_lists_every_setting() -> None:
    assert {key for key in COMPOSE if not key.startswith("x-")} == {
        "name", "services", "configs", "secrets", "volumes",
    }  # fmt: skip
    for service in SERVICES.values():
        for key, value in service.items():
            assert isinstance(value, KINDS[key]), key
            assert key == "init" or key == "read_only" or not isinstance(value, bool), key


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_put_together_as_the_specification_says(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[a-z0-9-]+", name)
    for key in ("stop_grace_period",):
        assert re.fullmatch(DURATION, service.get(key, "1s"))
    for key in ("mem_limit", "shm_size"):
        assert re.fullmatch(SIZE, service.get(key, "1m"))
    check = service.get("healthcheck")
    if check is not None:
        assert set(check) == {"test", "interval", "timeout", "retries", "start_period"}
        assert check["test"][0] in {"CMD", "CMD-SHELL"}
        assert check["test"][0] == "CMD" or len(check["test"]) == 2
        for key in ("interval", "timeout", "start_period"):
            assert re.fullmatch(DURATION, check[key])
    for other, asked in service.get("depends_on", {}).items():
        assert set(asked) == {"condition"}
        assert asked["condition"] in CONDITIONS
        assert asked["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
    assert set(service["secrets"]) <= set(COMPOSE["secrets"])
    for config in service.get("configs", []):
        assert config["source"] in COMPOSE["configs"]
    for volume in service.get("volumes", []):
        assert volume.partition(":")[0] in COMPOSE["volumes"]
    for value in service["environment"].values() if "environment" in service else ():
        assert isinstance(value, str)


def test_the_services_are_those_of_a_deployment() -> None:
    assert set(SERVICES) == {
        "postgres", "redis", "migrate", "worker-turns", "worker-micro", "worker-batch",
        "worker-bulk", "beat", "flower", "metrics",
    }  # fmt: skip
    assert set(OURS) == set(SERVICES) - {"postgres", "redis"}


def test_every_queue_has_exactly_one_kind_of_worker() -> None:
    served = [option(worker, "--queues") for worker in WORKERS.values()]
    assert sorted(",".join(served).split(",")) == sorted(QUEUES)


def test_live_turns_share_workers_with_nothing_that_waits_for_a_model() -> None:
    [live] = [one for one in WORKERS.values() if "turns" in option(one, "--queues").split(",")]
    assert set(option(live, "--queues").split(",")) == {"turns", "maintenance"}


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_program_of_a_service_is_one_that_the_image_has(name: str) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    installed = {script.name for script in entry_points(group="console_scripts")}
    assert words(OURS[name])[0] in {*project["scripts"], *installed}


def test_celery_finds_the_broker_that_beat_is_given() -> None:
    program, app_option, app, command, *arguments = words(SERVICES["beat"])
    assert (program, app_option, app, command) == ("celery", "-A", "schedules.app", "beat")
    known = celery_command.get_command(Context(celery_command), command)
    assert known is not None
    options = {option for parameter in known.params for option in parameter.opts}
    for argument in arguments:
        if argument.startswith("-"):
            assert argument.partition("=")[0] in options


@pytest.mark.parametrize("name", sorted(set(OURS) - {"beat"}))
def test_afterturn_finds_the_broker_that_it_is_given(name: str, processes: Processes) -> None:
    program, *arguments = words(OURS[name])
    assert program == "afterturn"
    helped = processes.python("-c", CALL, *arguments, "--help")
    assert helped.wait() == 0, helped.output


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_services_find_database_broker_and_configuration(name: str) -> None:
    environment = OURS[name]["environment"]
    postgres = SERVICES["postgres"]["environment"]
    assert environment["DATABASE_URL"] == (
        f"postgresql://{postgres['POSTGRES_USER']}@postgres/{postgres['POSTGRES_DB']}"
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
    waits_for_a_model = {"micro", "batch", "recompact"} & {
        *option(WORKERS[name], "--queues").split(",")
    }
    least = MODEL_CALL_SECONDS if waits_for_a_model else 30
    assert seconds(WORKERS[name]["stop_grace_period"]) >= least


@pytest.mark.parametrize("name", sorted(WORKERS))
def test_the_health_of_a_worker_is_asked_under_its_own_name(name: str) -> None:
    node = option(WORKERS[name], "--name")
    assert f"--destination {node}@$$HOSTNAME" in WORKERS[name]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_can_do_nothing_but_its_work(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] not in ("", "root", "0", "0:0")
    assert service["pids_limit"] <= 256
    assert service["mem_limit"]
    assert service["cpus"] <= 2
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert "privileged" not in service


def test_secrets_are_files_and_nothing_else_holds_one() -> None:
    for name, one in COMPOSE["secrets"].items():
        assert one == {"file": f"${{AFTERTURN_SECRETS:-./secrets}}/{name}"}
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if name.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"]
            else:
                assert not re.search(r"PASSWORD|KEY|SECRET|TOKEN", name)
                assert not re.search(r"//[^/@]*:[^/@]*@", value)
    for service in OURS.values():
        known = {*PASSWORDS, *KEYS, "DATABASE_URL", "BROKER_URL", "AFTERTURN_CONFIG"}
        assert set(service["environment"]) <= known


def test_only_workers_are_given_the_keys_of_models() -> None:
    keys = {"openai_api_key", "openrouter_api_key"}
    assert {name for name, one in SERVICES.items() if keys & set(one["secrets"])} == set(WORKERS)


def test_only_pages_are_given_the_password_of_pages() -> None:
    services = {name for name, one in SERVICES.items() if "web_people" in one["secrets"]}
    assert services == {"flower", "metrics"}
    for name in services:
        assert option(SERVICES[name], "--credentials") == "/run/secrets/web_people"


def test_make_makes_every_secret_once(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    command = ["make", "-s", "secrets", f"SECRETS={folder}"]
    for _ in range(2):
        subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=60)
        found = {file.name: file.read_text() for file in folder.iterdir()}
        assert set(found) == set(COMPOSE["secrets"])
        assert found == {file.name: file.read_text() for file in folder.iterdir()}
    assert folder.stat().st_mode & 0o077 == 0
    assert found["web_people"].startswith("afterturn:")
    assert len({*found.values()}) == 4
    assert found["openai_api_key"] == "\n"


def test_redis_keeps_what_it_is_given_and_asks_for_a_password() -> None:
    command = " ".join(SERVICES["redis"]["command"])
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command
    assert "requirepass" in command


def test_no_port_is_open_to_other_hosts() -> None:
    ports = {name: one["ports"] for name, one in SERVICES.items() if "ports" in one}
    assert ports["flower"] == ["127.0.0.1:5555:5555"]
    assert ports["metrics"] == ["127.0.0.1:9464:9464"]
    assert all(re.fullmatch(PORT, port) for of_service in ports.values() for port in of_service)


def test_the_image_installs_the_locked_versions_and_does_not_run_as_root() -> None:
    installing = [line for line in DOCKERFILE if "pip install" in line]
    assert len(installing) == 2
    assert "--require-hashes -r requirements.lock" in installing[0]
    assert "--no-deps --no-build-isolation" in installing[1]
    users = [line for line in DOCKERFILE if line.startswith("USER")]
    assert users == ["USER 10001:10001"]
    assert all(one["user"] == "10001:10001" for one in OURS.values())
    stages = [line.split()[1] for line in DOCKERFILE if line.startswith("FROM")]
    assert len(set(stages)) == 1
    assert 'ENTRYPOINT ["python", "-m", "afterturn.container"]' in DOCKERFILE


def test_the_image_is_made_of_what_is_there_and_gets_nothing_else() -> None:
    copied = [line.split()[1:-1] for line in DOCKERFILE if re.match(r"COPY (?!--from)", line)]
    sources = {source for of_line in copied for source in of_line}
    assert all((PROJECT / source).exists() for source in sources)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sources >= {
        *packages,
        project["project"]["readme"],
        *project["project"]["license-files"],
    }
    ignored = (PROJECT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == sources
