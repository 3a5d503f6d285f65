"""What a gateway stores comes back, once, whole and in order, or is refused as a whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from producers import (
    EventConflict,
    Gateway,
    MessageError,
    Origin,
    Receipt,
    RewindError,
    SessionNotFound,
    Usage,
    UsageError,
)
from storage.engine import Database
from tests.support.observing.at_once import at_once, succeeded
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import (
    ChatDict,
    as_bytes,
    assistant,
    contents,
    gateway_on,
    rows_of,
    stored_messages,
    url_of,
    user,
)

pytestmark = pytest.mark.both_databases

MIB = 1024 * 1024

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}

STRANGE: list[ChatDict] = [
    {"content": "keys in another order", "role": "user"},
    user("NUL \x00, halves \ud83d and \ude00, both \ud83d\ude00, a mark \ufdd0 and \ufdd00041"),
    {"role": "system", "content": ""},
    {"role": "developer", "content": "Ünï 🙂 漢字 \u202e \r\n\t"},
    assistant(
        None,
        reasoning_content="hm\x00m",
        thinking_blocks=[{"type": "thinking", "thinking": "…", "signature": "Zm9v\ud800"}],
        tool_calls=[{"index": 0, **CALL, "provider_specific_fields": {"thought": None}}],
    ),
    {"tool_call_id": "c1", "name": "look", "role": "tool", "content": '{"a": 1.0, "b": 1e3}'},
    {"role": "assistant", "refusal": None, "content": ""},
    user(
        [
            {"type": "text", "text": "a \udc00"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": 0}},
            {"type": "text", "text": "", "cache_control": {"type": "ephemeral"}},
        ]
    ),
    assistant("done", name="bot", z=1, a=[1.0, -0.0, 1e300, 2**80, True, None, {"": {}}]),
]


class TestMessages:
    def test_come_back_byte_for_byte(self, gateway: Gateway, database: Database) -> None:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, STRANGE[:4])
        gateway.finalize_turn(session, STRANGE[4:])
        with gateway_on(url_of(database)) as other:
            context = other.load_context("s")
        assert as_bytes(context.messages) == as_bytes(STRANGE)
        assert context.omitted == ()
        assert context.system == []

    def test_are_stored_byte_for_byte_even_where_no_provider_would_take_them(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")
        stray = {"role": "tool", "tool_call_id": "nobody", "content": "stray"}
        nothing = {"role": "assistant", "tool_calls": [], "extra": {}}
        chat = [user("a"), stray, nothing, assistant("b")]
        gateway.finalize_turn(session, chat)
        assert as_bytes(stored_messages(database, session)) == as_bytes(chat)
        context = gateway.load_context(session)
        assert context.messages[0] == user("a")
        assert context.messages[-1] == assistant("b")
        assert 1 in context.omitted

    def test_of_nine_mib_are_taken(self, gateway: Gateway) -> None:
        session = gateway.open_session("s")
        large = [user("请" * (3 * MIB)), assistant("a", reasoning="x" * (9 * MIB))]
        gateway.finalize_turn(session, large)
        assert as_bytes(gateway.load_context(session).messages) == as_bytes(large)

    @pytest.mark.parametrize(
        "message",
        [user("x" * (10 * MIB)), user("请" * (4 * MIB)), user("a", extra="x" * (10 * MIB))],
        ids=["text", "bytes, not characters", "field"],
    )
    def test_over_ten_mib_are_refused(
        self, gateway: Gateway, database: Database, message: ChatDict
    ) -> None:
        session = gateway.open_session("s")
        before = contents(database)
        with pytest.raises(MessageError, match=r"at most 10,485,760 are taken") as refused:
            gateway.finalize_turn(session, [user("fine"), message])
        assert (refused.value.index, refused.value.field) == (1, "content")
        assert contents(database) == before

    def test_are_counted_and_estimated_once(self, gateway: Gateway, database: Database) -> None:
        session = gateway.open_session("s")
        for number in range(3):
            gateway.finalize_turn(session, turn(number))
        (counted,) = rows_of(
            database, "SELECT next_position, live_messages, live_tokens, turns FROM sessions"
        )
        (summed,) = rows_of(
            database, "SELECT max(position) + 1, count(*), sum(tokens) FROM messages"
        )
        assert counted == (*summed, 3)
        assert gateway.load_context(session).tokens == counted[2]


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


BAD: list[tuple[Any, str]] = [
    ("hello", "*"),
    (None, "*"),
    ({"content": "a"}, "role"),
    ({"role": None, "content": "a"}, "role"),
    ({"role": "bot", "content": "a"}, "role"),
    ({"role": ["user"], "content": "a"}, "role"),
    ({"role": "user"}, "content"),
    (user(None), "content"),
    (user(7), "content"),
    (user({"type": "text", "text": "a"}), "content"),
    (user(["a"]), "content[0]"),
    (user([{"type": "text", "text": "a"}, {"text": "b"}]), "content[1]"),
    (user([{"type": "text", "text": None}]), "content[0].text"),
    (user("a", name=3), "name"),
    (user("a", tool_calls=[CALL]), "tool_calls"),
    (assistant(None, tool_calls="look"), "tool_calls"),
    (assistant(None, tool_calls=[{**CALL, "id": ""}]), "tool_calls[0].id"),
    (assistant(None, tool_calls=[CALL, {**CALL, "function": {}}]), "tool_calls[1].function"),
    (assistant(None, tool_calls=[{"id": "c", "custom": "look"}]), "tool_calls[0].custom"),
    ({"role": "tool", "content": "a"}, "tool_call_id"),
    ({"role": "tool", "content": "a", "tool_call_id": 5}, "tool_call_id"),
    ({"role": "tool", "tool_call_id": "c1"}, "content"),
    (user("a", score=float("nan")), "score"),
    (user("a", more={"of": [1, float("inf")]}), "more.of[1]"),
    (user("a", blob=b"bytes"), "blob"),
    (user("a", pair=(1, 2)), "pair"),
    (user("a", table={1: "one"}), "table"),
    (user("a", digits=10**5000), "digits"),
    (user("a", deep=nested(5000)), "deep"),
]


class TestBadMessages:
    def test_are_refused_with_place_and_field_and_nothing_of_their_turn_is_stored(
        self, gateway: Gateway, database: Database, subtests: pytest.Subtests
    ) -> None:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, turn(1))
        before = contents(database)
        for bad, field in BAD:
            for store in (gateway.finalize_turn, gateway.append):
                with subtests.test(field=field):
                    with pytest.raises(MessageError) as refused:
                        # Only the last of five is bad.
                        store(session, [*turn(2), bad], event_id="e")
                    assert refused.value.index == 4
                    assert refused.value.field.startswith(field)
                    assert str(refused.value).startswith(f"messages[4].{refused.value.field}: ")
                    assert contents(database) == before
        # The event's id was not used up either.
        assert not gateway.finalize_turn(session, turn(2), event_id="e").repeated

    def test_are_reported_without_their_text(self, gateway: Gateway) -> None:
        session = gateway.open_session("s")
        with pytest.raises(MessageError) as refused:
            gateway.finalize_turn(session, [user("secret " * 10, role="secret " * 100)])
        assert len(str(refused.value)) < 200


class TestOrigins:
    @pytest.mark.parametrize(
        "origins", [{1: "runtime", 2: Origin.TOOL}, [None, "runtime", Origin.TOOL, None]]
    )
    def test_say_which_user_rows_no_person_wrote(
        self, gateway: Gateway, database: Database, origins: Any
    ) -> None:
        session = gateway.open_session("s")
        chat = [user("a"), user("page"), user("output"), assistant("b")]
        gateway.finalize_turn(session, chat, origins=origins)
        found = rows_of(database, "SELECT origin, opens_turn FROM messages ORDER BY position")
        assert found == [("person", 1), ("runtime", 0), ("tool", 0), (None, 0)]
        # So the newest turn begins with the first of them.
        assert gateway.rewind(session).cut == 0

    @pytest.mark.parametrize(
        ("origins", "index"),
        [
            ({2: "runtime"}, 2),
            ({-1: "runtime"}, -1),
            ([None, "robot"], 1),
            ([None] * 2 + ["tool"], 2),
        ],
    )
    def test_that_do_not_fit_are_refused(
        self, gateway: Gateway, database: Database, origins: Any, index: int
    ) -> None:
        session = gateway.open_session("s")
        before = contents(database)
        with pytest.raises(MessageError) as refused:
            gateway.finalize_turn(session, [user("a"), assistant("b")], origins=origins)
        assert (refused.value.index, refused.value.field) == (index, "origin")
        assert contents(database) == before


class TestEvents:
    def test_the_same_call_again_changes_nothing_and_says_so(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, turn(1))
        first = gateway.finalize_turn(session, turn(2), event_id="e")
        gateway.finalize_turn(session, turn(3))
        assert first == Receipt("s", "e", turn=2, first_position=4, rows=4, repeated=False)
        before = contents(database)
        again = gateway.finalize_turn("s", turn(2), event_id="e")
        assert again == Receipt("s", "e", turn=2, first_position=4, rows=4, repeated=True)
        assert contents(database) == before

    @pytest.mark.parametrize("other", ["messages", "keys", "origins", "open", "fewer", "none"])
    def test_the_same_id_with_something_else_stores_nothing(
        self, gateway: Gateway, database: Database, other: str
    ) -> None:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, [user("a"), assistant("b")], event_id="e")
        before = contents(database)
        calls: dict[str, Callable[..., Receipt]] = {
            "messages": partial(gateway.finalize_turn, session, [user("a"), assistant("c")]),
            "keys": partial(
                gateway.finalize_turn, session, [{"content": "a", "role": "user"}, assistant("b")]
            ),
            "origins": partial(
                gateway.finalize_turn, session, [user("a"), assistant("b")], origins={0: "runtime"}
            ),
            "open": partial(gateway.append, session, [user("a"), assistant("b")]),
            "fewer": partial(gateway.finalize_turn, session, [user("a")]),
            "none": partial(gateway.finalize_turn, session, []),
        }
        with pytest.raises(EventConflict, match="'e' was stored before") as refused:
            calls[other](event_id="e")
        assert (refused.value.session_id, refused.value.event_id) == ("s", "e")
        assert contents(database) == before

    def test_are_of_one_session(self, gateway: Gateway) -> None:
        for name in ("s", "t"):
            session = gateway.open_session(name)
            assert not gateway.finalize_turn(session, turn(1), event_id="e").repeated

    def test_from_eight_threads_at_once_are_stored_once(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")
        for event in ("e1", "e2", "e3"):
            call = partial(gateway.finalize_turn, session, turn(1), event_id=event)
            receipts = succeeded(at_once([call] * 8))
            assert sorted(receipt.repeated for receipt in receipts) == [False] + [True] * 7
            assert len({receipt.first_position for receipt in receipts}) == 1
        assert as_bytes(stored_messages(database, session)) == as_bytes(turn(1) * 3)
        assert rows_of(database, "SELECT turns, next_position FROM sessions") == [(3, 12)]

    def test_of_which_threads_disagree_are_stored_once_as_one_of_them_said(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")
        calls = [
            partial(gateway.finalize_turn, session, turn(number), event_id="e")
            for number in range(8)
        ]
        results = at_once(calls)
        (stored,) = [n for n, result in enumerate(results) if isinstance(result, Receipt)]
        assert all(isinstance(r, EventConflict) for n, r in enumerate(results) if n != stored)
        assert as_bytes(stored_messages(database, session)) == as_bytes(turn(stored))


class TestUsage:
    @pytest.mark.parametrize(
        "usage",
        [
            Usage(prompt_tokens=10, completion_tokens=2, revision=0),
            {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "revision": 0},
        ],
    )
    def test_is_kept_with_the_event(self, gateway: Gateway, database: Database, usage: Any) -> None:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, turn(1), usage=usage)
        ((kept,),) = rows_of(database, "SELECT usage FROM turn_events")
        assert kept == '{"prompt_tokens": 10, "completion_tokens": 2, "revision": 0}'

    @pytest.mark.parametrize("count", [-1, "10", 1.5, True])
    def test_that_is_no_count_is_refused(
        self, gateway: Gateway, database: Database, count: Any
    ) -> None:
        session = gateway.open_session("s")
        before = contents(database)
        for report in ({"prompt_tokens": count}, Usage(prompt_tokens=count)):
            with pytest.raises(UsageError, match=r"usage\.prompt_tokens: must be a whole number"):
                gateway.finalize_turn(session, turn(1), usage=report)
        assert contents(database) == before


class TestManyThreads:
    def test_finish_turns_of_one_session_whole_and_without_gaps(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")

        def finish_five(thread: int) -> list[Receipt]:
            return [
                gateway.finalize_turn(session, turn(100 * thread + number, tools=thread % 3))
                for number in range(5)
            ]

        done = succeeded(at_once([partial(finish_five, thread) for thread in range(8)]))
        receipts = sorted(
            (receipt for some in done for receipt in some), key=lambda r: r.first_position
        )
        said = {
            done[thread][number].first_position: turn(100 * thread + number, tools=thread % 3)
            for thread in range(8)
            for number in range(5)
        }
        expected = [message for place in sorted(said) for message in said[place]]
        assert as_bytes(stored_messages(database, session)) == as_bytes(expected)
        assert [receipt.turn for receipt in receipts] == list(range(1, 41))
        assert rows_of(database, "SELECT turns, next_position FROM sessions") == [
            (40, len(expected))
        ]
        assert [p for (p,) in rows_of(database, "SELECT position FROM messages ORDER BY id")] == [
            *range(len(expected))
        ]

    def test_finish_turns_of_many_sessions(self, gateway: Gateway, database: Database) -> None:
        opened = [gateway.open_session(f"s{number}") for number in range(8)]

        def finish_five(thread: int) -> None:
            for number in range(5):
                gateway.finalize_turn(opened[thread], turn(100 * thread + number))

        succeeded(at_once([partial(finish_five, thread) for thread in range(8)]))
        for thread, session in enumerate(opened):
            expected = [m for number in range(5) for m in turn(100 * thread + number)]
            assert as_bytes(stored_messages(database, session)) == as_bytes(expected)


class TestOpenTurns:
    def test_are_closed_by_finalize_even_without_messages(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")
        chat = turn(1, tools=2)
        state = "SELECT turns, turn_open FROM sessions"
        opened = gateway.append(session, chat[:3])
        assert opened == Receipt("s", opened.event_id, None, 0, 3, repeated=False)
        assert rows_of(database, state) == [(0, 1)]
        assert rows_of(database, "SELECT count(*) FROM jobs") == [(0,)]
        gateway.append(session, chat[3:])
        closed = gateway.finalize_turn(session, [], event_id="end")
        assert closed == Receipt("s", "end", 1, 6, 0, repeated=False)
        assert rows_of(database, state) == [(1, 0)]
        assert rows_of(database, "SELECT kind, queue, state FROM jobs") == [
            ("turn", "turns", "due")
        ]
        assert gateway.finalize_turn(session, [], event_id="end").repeated
        assert as_bytes(gateway.load_context(session).messages) == as_bytes(chat)

    def test_append_may_close_the_turn_itself(self, gateway: Gateway, database: Database) -> None:
        session = gateway.open_session("s")
        receipt = gateway.append(session, turn(1), turn_open=False, event_id="e")
        assert receipt.turn == 1
        assert gateway.finalize_turn(session, turn(1), event_id="e").repeated
        assert rows_of(database, "SELECT count(*) FROM jobs") == [(1,)]


class TestContext:
    def test_is_rendered_in_three_dialects(self, gateway: Gateway) -> None:
        session = gateway.open_session("s")
        gateway.finalize_turn(
            session,
            [{"role": "system", "content": "Be kind."}, user("a"), user("b"), *turn(1)[1:]],
        )
        chat = gateway.load_context(session, dialect="openai")
        assert [m["role"] for m in chat.messages] == [
            "system", "user", "user", "assistant", "tool", "assistant",
        ]  # fmt: skip
        blocks = gateway.load_context(session, dialect="anthropic")
        assert blocks.system == [{"type": "text", "text": "Be kind."}]
        assert [m["role"] for m in blocks.messages] == ["user", "assistant", "user", "assistant"]
        strict = gateway.load_context(session, dialect="strict")
        assert strict.messages[-4]["content"] == "b"
        assert {c.revision for c in (chat, blocks, strict)} == {0}
        with pytest.raises(ValueError, match="cohere"):
            gateway.load_context(session, dialect="cohere")

    def test_of_an_empty_session_holds_nothing_of_anybody(self, gateway: Gateway) -> None:
        session = gateway.open_session("s")
        context = gateway.load_context(session)
        # Providers want one user message at least, so a constant one stands there.
        assert [message["role"] for message in context.messages] == ["user"]
        assert (context.tokens, context.omitted) == (0, ())


class TestTakingBack:
    def test_rewinds_turns_and_goes_on_behind_them(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")
        for number in range(4):
            gateway.finalize_turn(session, turn(number))
        taken = gateway.rewind(session, turns=2)
        assert (taken.cut, taken.rows, taken.summaries_undone) == (8, 8, 0)
        before = gateway.load_context(session)
        assert as_bytes(before.messages) == as_bytes([*turn(0), *turn(1)])
        assert before.revision == 1
        # Positions are never used twice.
        assert gateway.finalize_turn(session, turn(9)).first_position == 16
        assert gateway.rewind(session, to_position=4).rows == 8
        assert as_bytes(gateway.load_context(session).messages) == as_bytes(turn(0))
        assert as_bytes(stored_messages(database, session)) == as_bytes(turn(0))
        assert rows_of(database, "SELECT count(*) FROM messages") == [(20,)]

    def test_of_an_open_turn_closes_it(self, gateway: Gateway, database: Database) -> None:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, turn(0))
        gateway.append(session, turn(1)[:2])
        assert gateway.rewind(session).cut == 4
        assert rows_of(database, "SELECT turns, turn_open FROM sessions") == [(1, 0)]

    @pytest.mark.parametrize(
        "wrong",
        [{"turns": 0}, {"turns": -1}, {"turns": 3}, {"to_position": 1}, {"to_position": 8},
         {"to_position": -1}],
    )  # fmt: skip
    def test_of_turns_that_are_not_there_is_refused(
        self, gateway: Gateway, database: Database, wrong: dict[str, int]
    ) -> None:
        session = gateway.open_session("s")
        for number in range(2):
            gateway.finalize_turn(session, turn(number))
        before = contents(database)
        with pytest.raises(RewindError, match="session 's'"):
            gateway.rewind(session, **wrong)
        assert contents(database) == before

    def test_of_an_empty_session_is_refused(self, gateway: Gateway) -> None:
        session = gateway.open_session("s")
        with pytest.raises(RewindError, match="it has 0"):
            gateway.rewind(session)

    def test_undoes_nothing_where_nothing_was_compacted(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")
        gateway.finalize_turn(session, turn(0))
        before = contents(database)
        assert gateway.undo(session) is None
        assert contents(database) == before


def test_a_session_that_is_not_there_is_one_clear_error(
    gateway: Gateway, database: Database
) -> None:
    before = contents(database)
    calls: list[Callable[[], object]] = [
        lambda: gateway.finalize_turn("nobody", turn(0)),
        lambda: gateway.append("nobody", turn(0)),
        lambda: gateway.load_context("nobody"),
        lambda: gateway.rewind("nobody"),
        lambda: gateway.undo("nobody"),
        lambda: gateway.set_model("nobody", "m"),
        lambda: gateway.close_session("nobody"),
    ]
    for call in calls:
        with pytest.raises(SessionNotFound, match="'local' has no session 'nobody'"):
            call()
    assert contents(database) == before
