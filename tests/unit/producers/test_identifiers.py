"""Names that gateways may give."""

from __future__ import annotations

import pytest

from producers.arguments import MAX_NAME_BYTES, IdentifierError, check_identifiers


def test_names_up_to_the_limit_and_those_left_out_pass() -> None:
    check_identifiers(session_id="s" * MAX_NAME_BYTES, chat_id="群聊", thread_id=None)


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME_BYTES + 1), "é" * (MAX_NAME_BYTES // 2 + 1)])
def test_empty_and_overlong_names_are_refused_by_their_argument(name: str) -> None:
    with pytest.raises(IdentifierError, match="event_id: ") as refused:
        check_identifiers(chat_id="fine", event_id=name)
    assert refused.value.field == "event_id"
