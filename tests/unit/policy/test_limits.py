"""Limits follow from what gateway, provider and operator say of the window."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sessions.session_records import session_record
from workers.policy.threshold import (
    DEFAULT_WINDOW,
    NoUsableWindowError,
    hygiene_limit,
    region_rules,
    server_threshold,
    session_threshold,
    session_window,
    usable_window,
)
from workers.settings import CompressionSettings

GPT = "gpt-5.6"


def threshold(settings: dict[str, Any] | None = None, **facts: Any) -> int:
    return session_threshold(session_record(**facts), CompressionSettings(**settings or {})).tokens


def hygiene(settings: dict[str, Any] | None = None, **facts: Any) -> int:
    session = session_record(**facts)
    return hygiene_limit(session, session_threshold(session, CompressionSettings(**settings or {})))


def server(settings: dict[str, Any] | None = None, **facts: Any) -> int | None:
    given = CompressionSettings(**{"codex_responses_native": True, **(settings or {})})
    session = session_record(**{"model": GPT, **facts})
    return server_threshold(session, session_threshold(session, given), given)


@pytest.mark.parametrize(
    ("given", "declared", "window"),
    [
        (None, None, DEFAULT_WINDOW),
        (1_000_000, None, 1_000_000),
        (1_000_000, 200_000, 200_000),
        (128_000, 200_000, 128_000),
        (None, 200_000, DEFAULT_WINDOW),
        (None, 32_768, 32_768),
    ],
)
def test_the_window_is_the_smallest_that_was_stated(
    given: int | None, declared: int | None, window: int
) -> None:
    assert session_window(session_record(context_window=given, declared_window=declared)) == window


def test_a_window_that_the_provider_declared_lowers_the_threshold_like_any_other() -> None:
    assert threshold(context_window=1_000_000) == 500_000
    assert threshold(context_window=1_000_000, declared_window=200_000) == 150_000
    assert threshold(context_window=200_000, declared_window=1_000_000) == 150_000


@pytest.mark.parametrize(
    ("declared", "usable"), [(None, 68_000), (128_000, 68_000), (127_999, 67_999), (60_000, 30_000)]
)
def test_of_a_declared_window_at_most_half_is_kept_for_answers(
    declared: int | None, usable: int
) -> None:
    session = session_record(
        context_window=128_000, reserved_output=60_000, declared_window=declared
    )
    assert usable_window(session) == usable
    assert session_threshold(session, CompressionSettings()).tokens < usable


def test_a_reserve_that_the_gateway_cannot_keep_is_still_refused() -> None:
    with pytest.raises(NoUsableWindowError):
        threshold(context_window=32_000, reserved_output=32_000)


@pytest.mark.parametrize(
    ("facts", "settings", "limit"),
    [
        ({}, {}, 170_000),
        ({}, {"threshold_tokens": 100_000}, 170_000),
        ({}, {"threshold": 0.9}, 180_000),
        ({"reserved_output": 20_000}, {}, 153_000),
        ({"declared_window": 100_000}, {}, 85_000),
        ({"context_window": 64_000}, {}, 54_400),
        ({"context_window": None}, {}, 108_800),
    ],
)
def test_hygiene_begins_at_85_percent_of_the_usable_window_or_at_a_higher_threshold(
    facts: dict[str, Any], settings: dict[str, Any], limit: int
) -> None:
    assert hygiene(settings, **facts) == limit


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({}, 141_808),
        ({"threshold_tokens": 100_000}, 91_808),
        ({"codex_responses_compact_threshold": 141_807}, 141_807),
        ({"codex_responses_compact_threshold": 141_808}, 141_808),
        ({"codex_responses_compact_threshold": 200_000}, 141_808),
        ({"threshold_tokens": 9_191}, None),
        ({"threshold_tokens": 9_192}, 1_000),
        ({"codex_responses_native": False}, None),
    ],
)
def test_the_server_fires_8192_tokens_below_us_or_sooner(
    settings: dict[str, Any], tokens: int | None
) -> None:
    assert server(settings) == tokens


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5.60", "gpt-5.5", "claude", "", "mygpt-5.6"])
def test_other_models_get_no_server_threshold(model: str) -> None:
    assert server(model=model) is None


@pytest.mark.parametrize("model", ["gpt-5.6", "GPT-5.6-Codex", "openai/gpt-5.6-mini-2026-08-01"])
def test_the_whole_family_gets_one(model: str) -> None:
    assert server(model=model) == 141_808


def test_a_tail_is_a_share_of_the_threshold() -> None:
    settings = CompressionSettings(target_ratio=0.25, protect_first_n=2)
    rules = region_rules(session_threshold(session_record(), settings), settings)
    assert (rules.tail_budget, rules.protect_first_n) == (37_500, 2)
