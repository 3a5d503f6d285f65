"""The fingerprint of a chain changes with the summariser and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from workers.settings import Settings, SettingsSource
from workers.summariser.chain import FollowingSummariser
from workers.summariser.endpoints import SummariserSettings, chain_fingerprint
from workers.summariser.extractive.local import LocalSummariser

ONE: dict[str, Any] = {"base_url": "http://models.example:8000/v1", "model": "small"}
FINGERPRINT_OF_ONE = 1695397448144095019


def of(**given: Any) -> int:
    return chain_fingerprint(SummariserSettings.model_validate({**ONE, **given}))


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "large"},
        {"base_url": "http://models.example:8001/v1"},
        {"base_url": "http://models.example:8000/v2"},
        {"provider": "openrouter"},
        {"extra_body": {"reasoning": {"enabled": False}}},
        {"context_length": 32_768},
        {"fallback_chain": [{"model": "large", "base_url": "http://other.example/v1"}]},
    ],
)
def test_another_summariser_has_another_fingerprint(changed: dict[str, Any]) -> None:
    assert of(**changed) != of()


@pytest.mark.parametrize(
    "changed",
    [
        {"timeout": 5},
        {"base_url": "http://user:secret@models.example:8000/v1"},
        {"extra_body": {}},
    ],
)
def test_time_limits_and_secrets_leave_it_as_it_is(changed: dict[str, Any]) -> None:
    assert of(**changed) == of()


def test_the_order_of_a_chain_counts() -> None:
    others = [{"model": name, "base_url": "http://other.example/v1"} for name in ("a", "b")]
    assert of(fallback_chain=others) != of(fallback_chain=others[::-1])


def test_it_is_the_same_in_every_process_and_fits_a_column() -> None:
    assert of() == FINGERPRINT_OF_ONE
    assert 0 <= of() < 2**63


def test_without_a_model_it_is_that_of_the_local_summariser() -> None:
    assert chain_fingerprint(SummariserSettings()) == LocalSummariser().fingerprint


def test_workers_have_the_one_that_gateways_compute() -> None:
    settings = Settings.model_validate({"auxiliary": {"compression": ONE}})
    summariser = FollowingSummariser(SettingsSource.fixed(settings), {})
    assert summariser.fingerprint == of()
