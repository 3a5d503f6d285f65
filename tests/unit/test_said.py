"""What a person wrote."""

from __future__ import annotations

import pytest

from storage.rows import Row
from tests.strategies import rows_of
from workers.conversation.verbatim import user_text


def test_text_and_text_parts_are_what_a_person_wrote() -> None:
    [plain, parts] = rows_of(
        [
            {"role": "user", "content": "  Fly to Rome. "},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ]
    )
    assert (user_text(plain), user_text(parts)) == ("Fly to Rome.", "a\nb")


def test_results_of_tools_in_the_same_row_are_not() -> None:
    content = [
        {"type": "tool_result", "tool_use_id": "a", "content": "approved"},
        {"type": "function_call_output", "call_id": "b", "output": "approved too"},
        {"type": "text", "text": "Go on."},
    ]
    [row] = rows_of([{"role": "user", "content": content}])
    assert user_text(row) == "Go on."


def test_secrets_are_redacted() -> None:
    [row] = rows_of([{"role": "user", "content": "password: hunter2-Zk81!pq"}])
    assert user_text(row) == "password: [REDACTED]"


def test_a_row_without_its_message_is_an_error() -> None:
    with pytest.raises(ValueError, match="row 7"):
        user_text(Row(position=7, tokens=3, role="user", opens_turn=True))
