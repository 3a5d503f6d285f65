"""Sessions: who gets which, and what is remembered of them."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

from producers import Gateway, Session, SessionNotFound
from storage.conversations import sessions
from storage.conversations.sessions import SessionRecord
from storage.engine import Database
from storage.errors import SessionClash
from tests.support.observing.at_once import at_once, succeeded
from tests.support.observing.counting import counted
from tests.support.programs.processes import Processes
from tests.support.sessions.conversations import turn
from tests.support.sessions.gateways import as_bytes, contents, gateway_on, stored_messages, url_of
from workers.settings import Settings

PROMPT = "Be kind.\r\n\x00 Ünï 🙂 half \ud83d, mark \ufdd0 \u202e  "

OPEN_IN_ANOTHER_PROCESS = """
import json, os
from producers import Gateway

with Gateway() as gateway:
    session = gateway.open_session("s", system_prompt="another prompt")
    print(json.dumps(session.system_prompt), "end")
"""


def record_of(database: Database, session: Session) -> SessionRecord:
    with database.read() as connection:
        return sessions.fetch(connection, session.key)


class TestChats:
    def test_get_the_same_session_again_and_never_that_of_another_chat(
        self, gateway: Gateway
    ) -> None:
        places: list[dict[str, Any]] = [
            {"source": source, "chat_id": chat, "thread_id": thread, "owner": owner}
            for source in ("telegram", "slack")
            for chat in ("1", "2", "3")
            for thread in (None, "1", "2")
            for owner in ("local", "other")
        ]
        first = [gateway.open_session(**place) for place in places]
        assert len({session.id for session in first}) == len(places)
        again = [gateway.open_session(**place) for place in places]
        assert again == first
        assert [s.thread_id for s in first] == [place["thread_id"] for place in places]

    def test_without_an_id_are_new_conversations_each_time(self, gateway: Gateway) -> None:
        opened = [gateway.open_session() for _ in range(5)]
        assert len({session.id for session in opened}) == 5
        assert all(re.fullmatch(r"\d{8}_\d{6}_[0-9a-f]{8}", session.id) for session in opened)

    def test_opened_by_eight_threads_at_once_are_one_session(self, gateway: Gateway) -> None:
        for chat in ("1", "2", "3"):
            call = partial(
                gateway.open_session, source="matrix", chat_id=chat, title="Chat", model="m"
            )
            opened = succeeded(at_once([call] * 8))
            assert len({session.id for session in opened}) == 1
        ids = partial(gateway.open_session, "by-id", system_prompt="p")
        assert len({session.key for session in succeeded(at_once([ids] * 8))}) == 1

    def test_that_were_closed_get_a_new_session_and_the_old_one_opens_by_its_id(
        self, gateway: Gateway, database: Database
    ) -> None:
        chat = partial(gateway.open_session, source="slack", chat_id="C", thread_id="T")
        old = chat()
        gateway.finalize_turn(old, turn(1))
        gateway.close_session(old)
        assert record_of(database, old).ended_at is not None
        new = chat()
        assert new.id != old.id
        assert gateway.load_context(new).tokens == 0
        with pytest.raises(SessionClash, match=f"session '{old.id}' cannot be opened"):
            gateway.open_session(old.id)
        gateway.close_session(new.id)
        reopened = gateway.open_session(old.id)
        assert reopened == old
        assert record_of(database, old).ended_at is None
        assert chat() == old
        assert as_bytes(gateway.load_context(reopened).messages) == as_bytes(turn(1))

    def test_that_another_id_has_open_are_refused_to_a_new_one(
        self, gateway: Gateway, database: Database
    ) -> None:
        gateway.open_session("a", source="slack", chat_id="C")
        before = contents(database)
        with pytest.raises(SessionClash, match=r"'b' .* session 'a'"):
            gateway.open_session("b", source="slack", chat_id="C")
        assert contents(database) == before

    def test_take_late_turns_after_they_were_closed(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s")
        gateway.close_session(session)
        gateway.finalize_turn(session, turn(1))
        assert as_bytes(stored_messages(database, session)) == as_bytes(turn(1))


class TestOwners:
    def test_use_the_same_ids_titles_and_chats_and_never_meet(self, database: Database) -> None:
        url = url_of(database)
        with gateway_on(url, owner="ann") as ann, gateway_on(url, owner="bob") as bob:
            for gateway, number in ((ann, 1), (bob, 2)):
                session = gateway.open_session(
                    "s", source="slack", chat_id="C", title="Trip", system_prompt=f"of {number}"
                )
                assert session.title == "Trip"
                gateway.finalize_turn("s", turn(number), event_id="e")
            for gateway, number in ((ann, 1), (bob, 2)):
                assert as_bytes(gateway.load_context("s").messages) == as_bytes(turn(number))
                assert gateway.open_session("s").system_prompt == f"of {number}"
            bob.open_session("only bob's")
            with pytest.raises(SessionNotFound, match="owner 'ann'") as refused:
                ann.load_context("only bob's")
            assert (refused.value.session_id, refused.value.owner) == ("only bob's", "ann")
            # A call may name an owner; the session is then used as it was given.
            session = ann.open_session("s", owner="bob")
            assert as_bytes(ann.load_context(session).messages) == as_bytes(turn(2))


class TestSystemPrompts:
    def test_stay_what_the_first_one_was_in_every_process(
        self, gateway: Gateway, database: Database, processes: Processes
    ) -> None:
        assert gateway.open_session("s").system_prompt is None
        assert gateway.open_session("s", system_prompt=PROMPT).system_prompt == PROMPT
        assert gateway.open_session("s", system_prompt="other").system_prompt == PROMPT
        assert gateway.open_session("s").system_prompt == PROMPT
        child = processes.python(
            "-c", OPEN_IN_ANOTHER_PROCESS, env={"DATABASE_URL": url_of(database)}
        )
        assert child.wait() == 0
        assert json.loads(child.output.removesuffix(" end\n")) == PROMPT

    def test_may_be_empty(self, gateway: Gateway) -> None:
        assert gateway.open_session("s", system_prompt="").system_prompt == ""
        assert gateway.open_session("s", system_prompt="late").system_prompt == ""

    def test_of_threads_that_disagree_are_one_of_theirs(self, gateway: Gateway) -> None:
        calls = [partial(gateway.open_session, "s", system_prompt=f"p{n}") for n in range(8)]
        prompts = {session.system_prompt for session in succeeded(at_once(calls))}
        assert len(prompts) == 1


class TestModels:
    def test_are_changed_with_window_and_revision(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session(
            "s", model="small", context_window=64_000, reserved_output=100, model_config={"t": 1}
        )
        assert (session.model, session.context_window, session.reserved_output) == (
            "small",
            64_000,
            100,
        )
        gateway.set_model(session, "large", context_window=200_000, reserved_output=8)
        record = record_of(database, session)
        assert (record.model, record.context_window, record.reserved_output) == (
            "large",
            200_000,
            8,
        )
        assert (record.revision, record.model_config) == (1, None)
        assert gateway.load_context(session).revision == 1

    def test_that_stay_the_same_leave_the_revision_alone(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s", model="small", context_window=64_000)
        gateway.set_model(session, "small", context_window=64_000)
        gateway.open_session("s", model="small", context_window=64_000)
        gateway.open_session("s", model="small")
        gateway.open_session("s")
        assert record_of(database, session).revision == 0
        again = gateway.open_session("s", model="other")
        assert (again.model, again.context_window) == ("other", 64_000)
        assert record_of(database, session).revision == 1

    def test_keep_their_configuration_as_it_was_given(
        self, gateway: Gateway, database: Database
    ) -> None:
        chosen = {"temperature": 0.5, "stop": ["\x00", "\ud800"], "extra": {"b": 1, "a": None}}
        session = gateway.open_session("s", model_config=chosen)
        kept = record_of(database, session).model_config
        assert kept is not None
        assert json.dumps(json.loads(kept)) == json.dumps(chosen)


class TestTitles:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ("Trip to Rome", "Trip to Rome"),
            ("  a \t b\r\nc\u2028d\xa0", "a b c d"),
            ("zero\u200bwidth\u2060\ufeff and \u202eRTL\u2066\x00\x1b[0m", "zerowidth and RTL[0m"),
            ("half \ud83d surrogate", "half surrogate"),
            ("請" * 200, "請" * 100),
            (" \u200b\x00 ", None),
            ("", None),
            (None, None),
        ],
    )
    def test_are_cleaned(self, gateway: Gateway, given: str | None, kept: str | None) -> None:
        assert gateway.open_session("s", title=given).title == kept

    def test_that_are_used_get_a_number(self, gateway: Gateway) -> None:
        titles = [gateway.open_session(title="Trip").title for _ in range(12)]
        assert titles == ["Trip", *(f"Trip #{number}" for number in range(2, 13))]
        assert gateway.open_session(title="Trip\u200b").title == "Trip #13"
        assert gateway.open_session(title="Trip #2").title == "Trip #2 #2"
        assert gateway.open_session(title="Trip", owner="other").title == "Trip"
        long = [gateway.open_session(title="x" * 120).title or "" for _ in range(2)]
        assert long == ["x" * 100, "x" * 97 + " #2"]

    def test_stay_what_they_were(self, gateway: Gateway) -> None:
        gateway.open_session("s", title="One")
        assert gateway.open_session("s", title="Two").title == "One"

    def test_wanted_by_many_threads_at_once_go_to_one_each(self, gateway: Gateway) -> None:
        calls = [partial(gateway.open_session, f"s{n}", title="Chat") for n in range(12)]
        titles = {session.title for session in succeeded(at_once(calls))}
        assert titles == {"Chat", *(f"Chat #{number}" for number in range(2, 13))}

    def test_cost_few_statements_however_often_they_are_used(self, database: Database) -> None:
        made = [
            {"owner": "local", "id": f"old{n}", "source": "cli", "title": f"Chat #{n}"}
            for n in range(2, 3000)
        ]
        with database.write() as connection:
            for values in [*made, {**made[0], "id": "old1", "title": "Chat"}]:
                sessions.create(connection, database, {"thread_id": "", **values})
        gateway = Gateway(Settings(database_url=url_of(database)), database=database)
        with counted(database) as work:
            assert gateway.open_session("s", title="Chat").title == "Chat #3000"
        assert work.statements < 40, work.texts


def test_the_longest_names_that_are_taken_fit_every_index(gateway: Gateway) -> None:
    longest: dict[str, Any] = {
        name: name[0] + "é" * 255 for name in ("owner", "source", "chat_id", "thread_id")
    }
    session = gateway.open_session(title="ü" * 100, **longest)
    assert session.chat_id == longest["chat_id"]
    receipt = gateway.finalize_turn(
        session, [{"role": "user", "content": "hello"}], event_id="e" + "ø" * 255
    )
    assert receipt.rows == 1


def test_an_id_that_another_chat_gave_is_no_way_into_its_session(gateway: Gateway) -> None:
    session = gateway.open_session("same", source="telegram", chat_id="1")
    assert gateway.open_session("same", source="telegram", chat_id="1") == session
    assert gateway.open_session("same") == session
    with pytest.raises(SessionClash, match="belongs to chat '1' of telegram"):
        gateway.open_session("same", source="telegram", chat_id="2")
