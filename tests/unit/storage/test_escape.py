"""Every string can be made storable and comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given

from storage.types import escape, unescape
from tests.support.sessions.payloads import strings
from tests.tiers import examples


def is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


@given(strings())
@examples(60)
def test_a_string_comes_back_as_it_was(text: str) -> None:
    assert unescape(escape(text)) == text


@given(strings())
@examples(60)
def test_what_is_stored_is_utf8_without_nul(text: str) -> None:
    assert is_storable(escape(text))


@given(strings(), strings())
@examples(60)
def test_different_strings_are_stored_differently(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@pytest.mark.parametrize("text", ["", "plain", "Grüße 北京 😀", "\x01\x7f\ufdd1\ufffe\U0010ffff"])
def test_text_that_can_be_stored_stays_as_it_is(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\x00b", "a\ufdd00000b"),
        ("\ud83d", "\ufdd0d83d"),
        ("\ud83d\ude00", "\ufdd0d83d\ufdd0de00"),
        ("\ufdd0", "\ufdd0fdd0"),
        ("\ufdd00000", "\ufdd0fdd00000"),
    ],
)
def test_the_stored_form_stays_what_it_is_since_databases_hold_it(text: str, stored: str) -> None:
    assert escape(text) == stored
    assert unescape(stored) == text


def test_two_halves_of_a_pair_do_not_become_one_character() -> None:
    assert len(unescape(escape("\ud83d\ude00"))) == 2
