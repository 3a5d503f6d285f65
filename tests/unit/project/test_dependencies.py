"""What the product imports is what it declares, so that a plain installation has all of it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.programs.processes import PROJECT

PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PRODUCT = ("afterturn", "producers", "schedules", "storage", "tasks", "workers")
LOADED_BY_NAME = ("kombu.transport.redis",)
"""Modules that a library imports because of a URL or a setting of ours."""


def declared(*extras: str) -> list[Requirement]:
    """Return the requirements of a plain installation, and those of `extras`."""
    optional = PYPROJECT["optional-dependencies"]
    lines = [*PYPROJECT["dependencies"], *(line for name in extras for line in optional[name])]
    return [Requirement(line) for line in lines]


def imported(source: str) -> Iterator[str]:
    """Yield the module of each absolute import in a text, of those inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@cache
def bringing() -> Mapping[str, list[str]]:
    """Return which installed distributions bring each top-level module; slow to find out."""
    return metadata.packages_distributions()


def distributions_of(module: str) -> set[str]:
    """Return the installed distributions that may bring a module."""
    top = module.partition(".")[0]
    return {canonicalize_name(name) for name in bringing().get(top, ())}


def is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in PRODUCT


def installed_with(requirements: list[Requirement]) -> set[str]:
    """Return all that pip installs for `requirements`, as far as it is installed here."""
    found: set[str] = set()
    seen: set[str] = set()
    todo = list(requirements)
    while todo:
        one = todo.pop()
        if str(one) in seen or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        seen.add(str(one))
        found.add(canonicalize_name(one.name))
        try:
            needs = [Requirement(line) for line in metadata.requires(one.name) or ()]
        except metadata.PackageNotFoundError:
            continue
        for need in needs:
            extras = [{"extra": extra} for extra in ("", *one.extras)]
            if need.marker is None or any(need.marker.evaluate(extra) for extra in extras):
                need.marker = None
                todo.append(need)
    return found


def test_every_import_of_the_product_is_of_a_declared_distribution() -> None:
    names = {canonicalize_name(one.name) for one in declared("traces")}
    missing = {
        f"{path.relative_to(PROJECT)}: {module}"
        for folder in PRODUCT
        for path in (PROJECT / folder).rglob("*.py")
        for module in imported(path.read_text(encoding="utf-8"))
        if is_foreign(module) and not distributions_of(module) & names
    }
    assert not missing


def test_every_declared_distribution_is_imported() -> None:
    modules = {
        module
        for folder in PRODUCT
        for path in (PROJECT / folder).rglob("*.py")
        for module in imported(path.read_text(encoding="utf-8"))
    }
    used = {name for module in modules if is_foreign(module) for name in distributions_of(module)}
    assert {canonicalize_name(one.name) for one in declared()} <= used


@pytest.mark.parametrize("name", LOADED_BY_NAME)
def test_what_a_library_loads_for_us_comes_with_a_plain_installation(name: str) -> None:
    module = __import__(name, fromlist=["_"])
    source = (PROJECT / str(module.__file__)).read_text(encoding="utf-8")
    installed = installed_with(declared())
    missing = {
        needed
        for needed in imported(source)
        if is_foreign(needed) and not distributions_of(needed) & installed
    }
    assert not missing


def test_the_lock_holds_every_declared_distribution() -> None:
    lock = (PROJECT / "requirements.lock").read_text(encoding="utf-8")
    locked = {canonicalize_name(name) for name in re.findall(r"(?m)^([\w.-]+)==", lock)}
    assert {canonicalize_name(one.name) for one in declared()} <= locked
    assert installed_with(declared()) - locked <= {
        canonicalize_name(one.name) for one in declared() if one.marker
    }
