"""Signals as they are pushed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.signals import Signal, SignalKind, from_json, to_json
from tasks.names import signal_channel
from tasks.settings import is_redis

WORDS = st.text(alphabet=st.characters(codec="utf-8"), max_size=20)
SIGNALS = st.builds(
    Signal,
    id=st.integers(1, 2**63 - 1),
    owner=WORDS,
    session_id=WORDS,
    kind=st.sampled_from(SignalKind),
    quiet=st.booleans(),
    facts=st.dictionaries(WORDS, st.integers() | WORDS | st.none(), max_size=4),
    at=st.integers(0, 2**53),
)


@given(SIGNALS)
def test_come_back_as_they_were_from_one_line(signal: Signal) -> None:
    text = to_json(signal)
    assert "\n" not in text
    assert from_json(text) == from_json(text.encode()) == signal


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "7", "{}", b"\xff", '{"id": 1}', '{"id": "x", "owner": "o"}'],
)
def test_what_is_none_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_json(text)


def test_a_kind_of_a_newer_version_is_refused() -> None:
    signal = Signal(1, "o", "s", SignalKind.RESET, False, {}, 0)
    with pytest.raises(ValueError, match="telepathy"):
        from_json(to_json(signal).replace("session_reset", "telepathy"))


def test_each_owner_has_a_channel() -> None:
    assert signal_channel("local") == "afterturn:signals:local"
    assert signal_channel("a") != signal_channel("b")


@pytest.mark.parametrize(
    ("url", "pushes"),
    [
        ("redis://localhost/0", True),
        ("rediss://:secret@redis.internal:6379/1", True),
        ("amqp://localhost", False),
        ("memory://localhost", False),
        ("sentinel://localhost", False),
        (None, False),
    ],
)
def test_are_pushed_over_redis_alone(url: str | None, pushes: bool) -> None:
    assert is_redis(url) is pushes
