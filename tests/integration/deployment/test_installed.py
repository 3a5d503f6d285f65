"""The built wheel: what is in it, and that it works where nothing else of the project is."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.observing.waiting import wait_until
from tests.support.programs.processes import PROJECT, Child, clean_environment

PLAY = """
from afterturn import Gateway
with Gateway() as gateway:
    session = gateway.open_session("talk", context_window=128_000)
    said = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    gateway.finalize_turn(session, said)
    print(gateway.load_context(session).messages == said)
"""
DATA = re.compile(r"\.(gz|yaml|yml|typed|mako|ini|html|css|js|json)$")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with what the environment holds, without network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def environment(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return nothing of the developer's or the project's, but how pip reaches an index."""
    kept = {
        name: value
        for name, value in clean_environment().items()
        if name != "PYTHONPATH" and not name.startswith("VIRTUAL_ENV")
    }
    return {**kept, "HOME": str(home), "XDG_DATA_HOME": str(home), **more}


def test_the_wheel_holds_the_product_and_no_test(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"afterturn", "producers", "schedules", "storage", "tasks", "workers"}
    sources = {
        str(path.relative_to(PROJECT))
        for top in tops
        for path in (PROJECT / top).rglob("*")
        if path.suffix == ".py" or DATA.search(path.name)
    }
    assert sources <= names
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)


def test_the_program_starts_from_the_wheels_files_alone(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    # A path that is named comes before the project's own, which this environment knows of.
    code = "import afterturn, sys; from afterturn.cli import run; print(afterturn.__file__); "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}sys.exit(run(['config', 'example']))"],
        env={**environment(tmp_path, {}), "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(str(site)), done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """Return the programs of an environment that holds the wheel and what it requires, and no
    more."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pins = tmp_path / "pins.txt"
    lock = (PROJECT / "requirements.lock").read_text(encoding="utf-8")
    # Of the lock only the versions: hashes would ask for one of the wheel too.
    pins.write_text("\n".join(re.findall(r"(?m)^[\w.-]+(?:\[[\w,]+\])?==[^\\\n]+", lock)))
    done = subprocess.run(
        [folder / "bin" / "python", "-m", "pip", "install", "-q", "-c", str(pins), str(wheel)],
        env=dict(os.environ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Child]]:
    children: list[Child] = []
    yield children
    for child in children:
        child.kill()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_plain_installation_reaches_its_servers_and_works_a_turn(
    installed: Path, tmp_path: Path, redis_url: str, postgres_url: str, started: list[Child]
) -> None:
    servers = {
        "DATABASE_URL": postgres_url.replace("postgresql+psycopg://", "postgresql://"),
        "BROKER_URL": redis_url,
    }

    def start(name: str, program: str, *words: str, env: Mapping[str, str]) -> Child:
        command = [str(installed / program), *words]
        log = tmp_path / f"{name}.log"
        child = Child(command, log, environment(tmp_path, env), tmp_path)
        started.append(child)
        return child

    upgraded = start("upgrade", "afterturn", "db", "upgrade", env=servers)
    assert upgraded.wait() == 0, upgraded.output
    doctor = start("doctor", "afterturn", "doctor", "--json", env=servers)
    doctor.wait()
    checks = {one["check"]: one for one in json.loads(doctor.output)["checks"]}
    for name in ("database", "broker"):
        assert checks[name]["status"] == "ok", checks[name]

    # Without servers: the database is a file in the home of this test.
    up = start("up", "afterturn", "up", env={})
    up.wait_for("Ready.")
    played = start("play", "python", "-c", PLAY, env={})
    assert (played.wait(), played.output.strip()) == (0, "True")
    (database,) = tmp_path.rglob("afterturn.db")
    wait_until(lambda: states(database) == ["done"], "the turn is worked")
    up.terminate()
    assert up.wait() == 0, up.output


def states(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [state for (state,) in connection.execute("SELECT state FROM jobs ORDER BY id")]
