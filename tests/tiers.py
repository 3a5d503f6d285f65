"""The two tiers of the suite: `make test` for every change, `make soak` before a release.

`pytest --soak` runs everything: tests marked `soak`, every test on both databases, the deep profile
of Hypothesis, and all sessions of the real conversations. Without it those tests are left out, a
test runs on PostgreSQL too only where it is marked `both_databases` or names that database itself,
properties see a few examples, and real conversations are sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")

_USUAL_EXAMPLES = 100
"""Number that `examples` counts from: a profile with as many runs what a test asks for."""

_DATABASE_FIXTURES = ("database_url", "lasting_database")


def load(*, soak: bool) -> None:
    """Register the profiles of Hypothesis and load that of the tier."""
    # A busy machine makes generating slow, too, and that is no fault of a test.
    patient: dict[str, Any] = {
        "deadline": None,
        "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
        "print_blob": True,
    }
    settings.register_profile("quick", max_examples=30, **patient)
    settings.register_profile("deep", max_examples=400, **patient)
    settings.load_profile("deep" if soak else "quick")


def is_soak() -> bool:
    """Return whether the deep tier runs."""
    return settings.get_current_profile_name() == "deep"


def examples(usual: int, *, any_health: bool = False, **more: Any) -> settings:
    """Return the profile with its number of examples in proportion, for costlier properties.

    `any_health` is for properties on fixtures of a function, or of data that is rarely made whole.
    """
    if any_health:
        more["suppress_health_check"] = list(HealthCheck)
    scaled = round(usual * settings().max_examples / _USUAL_EXAMPLES)
    return settings(max_examples=max(2, scaled), **more)


def sampled(of: Iterable[T], *, every: int) -> Iterable[T]:
    """Return every `every`-th of `of`, and all in the deep tier."""
    return of if is_soak() else islice(of, 0, None, every)


def select(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Divide the tests of the quick tier into those to run and those that wait for `--soak`."""
    run: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (left if _waits_for_soak(item) else run).append(item)
    return run, left


def _waits_for_soak(item: pytest.Item) -> bool:
    if item.get_closest_marker("soak"):
        return True
    if item.get_closest_marker("both_databases"):
        return False
    given: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    of_fixture = [name for name in _DATABASE_FIXTURES if given.get(name) == "postgresql"]
    return any(not _is_named_by_test(item, name) for name in of_fixture)


def _is_named_by_test(item: pytest.Item, fixture: str) -> bool:
    """Return whether the test itself says which databases it runs on."""
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0]
        if fixture in (names.replace(",", " ").split() if isinstance(names, str) else names):
            return True
    return False
