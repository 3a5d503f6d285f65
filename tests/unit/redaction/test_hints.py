"""Looking for hints first changes nothing of what is found."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sessions.conversations import SESSION_FILES, real_sessions
from tests.unit.redaction.test_redaction import BY_FORM, BY_NAME, BY_PLACE, ORDINARY, PEM
from workers.redaction import formats as secret_formats
from workers.redaction import names as secret_names
from workers.redaction import redaction
from workers.redaction.names import normalised

HINTS = (
    *secret_names._NAME_HINTS,
    *secret_names._SEPARATOR_HINTS,
    *secret_names._PROSE_HINTS,
    *secret_formats._COOKIE_HINTS,
    *secret_formats._AUTHORIZATION_HINTS,
    *secret_formats._SCHEME_HINTS,
)
EVERY_CHARACTER = "".join(map(chr, range(sys.maxunicode + 1)))
CHANGED = str.maketrans({"k": "\u212a", "s": "\u017f", "i": "\u0130", "т": "\u1c84", "о": "\u1c82"})
WHOLE = [
    *(around.format(secret) for around, secret in [*BY_NAME, *BY_PLACE]),
    *BY_FORM.values(),
    *ORDINARY,
    PEM,
    "mi contraseña: Qwerty99",
    "mot de passe : qwerty99",
    "токен = qwerty99",
    "비밀번호: qwerty99",
]


def assert_the_same_without_hints(texts: Iterable[str]) -> None:
    for text in texts:
        found = redaction(text)
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for module in (secret_names, secret_formats):
                patch.setattr(module, "contains_any", lambda *_: True)
            assert found == redaction(text)


@pytest.mark.parametrize("letter", sorted(set("".join(HINTS))))
def test_whatever_a_pattern_takes_for_a_letter_is_that_letter_when_normalised(letter: str) -> None:
    taken = re.findall(re.escape(letter), EVERY_CHARACTER, re.IGNORECASE)
    assert letter in taken
    assert {normalised(character) for character in taken} == {letter}


def test_known_secrets_are_found_with_hints_as_without_in_any_case() -> None:
    assert_the_same_without_hints(
        form
        for text in WHOLE
        for form in (text, text.upper(), text.title(), text.translate(CHANGED), text.swapcase())
    )


_PIECES = st.sampled_from(
    [
        *WHOLE,
        *HINTS,
        *(hint.upper() for hint in HINTS),
        '="',
        "'",
        ": ",
        " is ",
        "\n",
        "-",
        "_",
        "=",
    ]
)
_TEXTS = st.lists(st.one_of(_PIECES, st.text(max_size=12)), max_size=12).map("".join)


@given(_TEXTS)
def test_any_text_is_redacted_with_hints_as_without(text: str) -> None:
    assert_the_same_without_hints([text, text.translate(CHANGED)])


@pytest.mark.parametrize("name", SESSION_FILES)
def test_real_conversations_are_redacted_with_hints_as_without(name: str) -> None:
    for number, (_, messages) in enumerate(real_sessions(name)):
        if number % 8 == 0:
            assert_the_same_without_hints(json.dumps(m, ensure_ascii=False) for m in messages)
