"""What a gateway imports: every name, all errors in one tree, and little that is loaded for it."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import afterturn
import producers
import storage
import workers
from producers import AfterturnError, Gateway
from storage import errors
from tests.support.programs.processes import PROJECT, clean_environment

HEAVY = frozenset(
    {
        "alembic",
        "celery",
        "detect_secrets",
        "kombu",
        "mako",
        "openai",
        "opentelemetry",
        "psycopg",
        "pydantic",
        "redis",
        "requests",
        "typer",
        "yaml",
    }
)
"""What importing `Gateway` must not load."""

LATE = frozenset({"celery", "detect_secrets", "kombu", "openai", "redis"})
"""What a gateway without a broker must not load, whatever it stores and reads."""

INTERNAL = frozenset({"Stopped", "StaleError", "UnreadableError"})
"""Exceptions that are caught where they are of use and never reach a caller."""

ERROR_TREE = frozenset(re.findall(r"^[│├└─ ]*(\w+)  ", errors.__doc__ or "", re.MULTILINE))


def loaded_after(program: str) -> frozenset[str]:
    """Run a program in a fresh interpreter and return the top-level modules that it loaded."""
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{program}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))",
        ],
        env={**clean_environment(), "PYTHONPATH": str(PROJECT)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    names: list[str] = json.loads(ended.stdout.splitlines()[-1])
    return frozenset(name.partition(".")[0] for name in names)


def every_error() -> list[type[BaseException]]:
    """Return every exception class that the three lower packages define."""
    found: dict[str, type[BaseException]] = {}
    for package in (storage, workers, producers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations." in module.name:
                continue
            for name, value in vars(importlib.import_module(module.name)).items():
                if (
                    inspect.isclass(value)
                    and issubclass(value, BaseException)
                    and value.__module__ == module.name
                ):
                    found[name] = value
    return list(found.values())


@pytest.mark.parametrize("package", ["afterturn", "producers"])
def test_importing_the_gateway_loads_nothing_heavy(package: str) -> None:
    loaded = loaded_after(f"from {package} import Gateway\nassert Gateway.__doc__")
    assert not HEAVY & loaded


@pytest.mark.parametrize("package", ["afterturn", "producers"])
def test_importing_any_public_name_loads_neither_queue_nor_model(package: str) -> None:
    loaded = loaded_after(f"import {package}\nfor n in {package}.__all__: getattr({package}, n)")
    assert not LATE - {"detect_secrets"} & loaded


def test_a_gateway_without_broker_loads_neither_queue_nor_model_nor_detectors(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'light.db'}"
    loaded = loaded_after(
        "from afterturn import Gateway, Settings\n"
        f"with Gateway(Settings(database_url={url!r})) as gateway:\n"
        "    session = gateway.open_session('s')\n"
        "    gateway.finalize_turn(session, [{'role': 'user', 'content': 'hello'}])\n"
        "    assert gateway.preflight(session).go\n"
        "    assert gateway.load_context(session).messages\n"
    )
    assert not LATE & loaded


def test_both_packages_have_the_same_names_and_each_can_be_imported() -> None:
    assert afterturn.__all__ == producers.__all__ == sorted(producers.__all__, key=_as_sorted)
    for name in producers.__all__:
        assert getattr(afterturn, name) is getattr(producers, name)


def _as_sorted(name: str) -> tuple[bool, str]:
    return not name.isupper(), name


def test_every_error_is_in_the_tree_and_says_whether_the_call_may_be_repeated() -> None:
    for error in every_error():
        if error.__name__ in INTERNAL:
            continue
        assert issubclass(error, AfterturnError), error
        assert isinstance(error.repeatable, bool), error
        assert error.__doc__, error
        assert error.__name__ in ERROR_TREE, error


def test_the_tree_names_no_error_that_there_is_not() -> None:
    assert {error.__name__ for error in every_error()} >= ERROR_TREE


def test_only_what_needs_no_correction_may_be_repeated() -> None:
    repeatable = {
        error.__name__
        for error in every_error()
        if issubclass(error, AfterturnError) and error.repeatable
    }
    assert repeatable == {"DatabaseUnavailable", "SummariserError"}


@pytest.mark.parametrize(
    "method", [name for name, _ in inspect.getmembers(Gateway, inspect.isfunction)]
)
def test_every_documented_error_of_a_method_is_public_and_in_the_tree(method: str) -> None:
    text = inspect.getdoc(getattr(Gateway, method)) or ""
    raises = text.partition("Raises:\n")[2].partition("\n\n")[0]
    for name in re.findall(r"^ {4}(\w+):", raises, re.MULTILINE):
        assert name in producers.__all__
        assert issubclass(getattr(producers, name), AfterturnError)


@pytest.mark.parametrize("method", [name for name in vars(Gateway) if not name.startswith("_")])
def test_every_argument_of_a_method_is_documented(method: str) -> None:
    signature = inspect.signature(getattr(Gateway, method))
    names = [name for name in signature.parameters if name not in {"self", "session"}]
    text = inspect.getdoc(getattr(Gateway, method)) or ""
    if "Arguments and errors as in" in text:
        names = [name for name in names if name in {"turn_open"}]
    for name in names:
        assert re.search(rf"\b{name}\b", text), name
