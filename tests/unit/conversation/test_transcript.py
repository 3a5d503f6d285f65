"""Which rows belong together."""

from __future__ import annotations

from hypothesis import given

from storage.conversations.rows import Row
from tests.support.sessions.conversations import SESSION_FILES, real_sessions
from tests.support.sessions.strategies import Transcript, any_transcripts, rows_of
from workers.conversation.transcript import tool_groups


def call(position: int, *ids: str) -> Row:
    return Row(position, 1, role="assistant", calls=ids)


def result(position: int, identifier: str) -> Row:
    return Row(position, 1, role="tool", answers=(identifier,))


def text(position: int) -> Row:
    return Row(position, 1, role="assistant")


def members(rows: list[Row]) -> list[tuple[int, ...]]:
    return [group.members for group in tool_groups(rows)]


def test_results_in_any_order_belong_to_the_row_that_called() -> None:
    rows = [call(0, "a", "b", "c"), result(1, "c"), result(2, "a"), result(3, "b")]
    (group,) = tool_groups(rows)
    assert group.members == (0, 1, 2, 3)
    assert group.answered_by == (2, 3, 1)
    assert not group.unanswered


def test_an_id_that_recurs_pairs_with_the_call_before_it() -> None:
    rows = [call(0, "x"), result(1, "x"), text(2), call(3, "x"), result(4, "x")]
    assert members(rows) == [(0, 1), (3, 4)]


def test_a_denial_and_the_real_result_both_stay_with_their_call() -> None:
    rows = [call(0, "x"), text(1), call(2, "x"), result(3, "x"), result(4, "x")]
    first, second = tool_groups(rows)
    assert first.unanswered
    assert second.members == (2, 3, 4)
    assert second.answered_by == (4,)


def test_adjacent_calls_of_one_id_are_both_answered() -> None:
    rows = [call(0, "x"), call(1, "x"), result(2, "x"), result(3, "x")]
    assert not any(group.unanswered for group in tool_groups(rows))


def test_a_late_result_finds_the_call_that_waits() -> None:
    rows = [call(0, "x"), text(1), call(2, "y"), result(3, "y"), result(4, "x")]
    assert members(rows) == [(0, 4), (2, 3)]


def test_a_result_without_a_call_is_in_no_group() -> None:
    assert tool_groups([result(0, "x"), call(1, "x")])[0].results == ()


def test_a_call_without_all_of_its_results_is_unanswered() -> None:
    (group,) = tool_groups([call(0, "a", "b"), result(1, "a")])
    assert group.unanswered
    assert group.answered_by == (1, None)


@given(transcript=any_transcripts())
def test_groups_are_consistent_on_any_transcript(transcript: Transcript) -> None:
    rows = rows_of(transcript.messages, transcript.origins)
    for group in tool_groups(rows):
        assert rows[group.call].calls == group.calls
        for index in group.results:
            assert index > group.call or rows[index].calls
            assert set(rows[index].answers) & set(group.calls)
        for identifier, by in zip(group.calls, group.answered_by, strict=True):
            assert by is None or identifier in rows[by].answers


def test_every_call_of_the_real_sessions_finds_its_result() -> None:
    unanswered = 0
    for name in SESSION_FILES:
        for _, messages in real_sessions(name):
            unanswered += sum(group.unanswered for group in tool_groups(rows_of(messages)))
    # One openhands session ends with a call that was never answered.
    assert unanswered == 1
