"""Gateways and their agents search: three forms of one call, of a bounded size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from producers import SESSION_SEARCH_TOOL, Gateway, RequestError, SearchMarkError, SessionNotFound
from storage.engine import Database
from tests.support.sessions.gateways import gateway_on, url_of
from tests.support.sessions.searching import said


def size(answer: Any) -> int:
    return len(json.dumps(answer, ensure_ascii=False))


def test_a_query_gives_hits_with_all_that_is_around_them(gateway: Gateway) -> None:
    session = gateway.open_session("trip", source="telegram", title="A trip")
    gateway.finalize_turn(session, said([f"line {at}" for at in range(10)]))
    gateway.finalize_turn(session, said(["where is the walrus?", "in the north"]))
    answer = gateway.search("walrus")
    assert answer["form"] == "discover"
    (hit,) = answer["hits"]
    assert hit["session"]["id"] == "trip"
    assert hit["session"]["title"] == "A trip"
    assert hit["session"]["source"] == "telegram"
    assert hit["excerpt"] == "where is the >>>walrus<<<?"
    assert (hit["role"], hit["position"], hit["archived"]) == ("user", 10, False)
    assert [line["position"] for line in hit["window"]] == [5, 6, 7, 8, 9, 10, 11]
    assert [line["text"] for line in hit["opening"]] == ["line 0", "line 1", "line 2"]
    assert [line["position"] for line in hit["ending"]] == [9, 10, 11]
    assert hit["at"].endswith("+00:00")
    assert (answer["next"], answer["notes"]) == (None, [])


def test_a_message_gives_the_piece_of_its_session_to_scroll_on_from(gateway: Gateway) -> None:
    session = gateway.open_session("long")
    gateway.finalize_turn(session, said([f"line {at}" for at in range(40)]))
    hit = gateway.search('"line 20"')["hits"][0]
    page = gateway.search(session_id="long", around_message_id=hit["message_id"], window=3)
    assert page["form"] == "scroll"
    assert [line["position"] for line in page["messages"]] == list(range(17, 24))
    behind = gateway.search(session_id="long", around_message_id=page["behind"], window=20)
    assert [line["position"] for line in behind["messages"]] == list(range(3, 40))
    assert behind["behind"] is None
    first = gateway.search(session_id="long", around_message_id=behind["before"], window=20)
    assert first["before"] is None


def test_without_anything_the_last_sessions_are_listed_page_by_page(gateway: Gateway) -> None:
    for at in range(5):
        session = gateway.open_session(f"s{at}")
        gateway.finalize_turn(session, said([f"first request {at}", "yes"]))
    gateway.open_session("empty")
    seen: list[str] = []
    page = None
    while True:
        answer = gateway.search(limit=2, page=page)
        assert answer["form"] == "browse"
        seen += [one["first_request"] for one in answer["sessions"]]
        page = answer["next"]
        if page is None:
            break
    assert sorted(seen) == [f"first request {at}" for at in range(5)]
    assert len(set(seen)) == 5


def test_an_answer_never_grows_beyond_its_room(gateway: Gateway) -> None:
    session = gateway.open_session("x" * 500, title="t" * 100)
    gateway.finalize_turn(session, said(["walrus " * 4_000] * 30))
    for limit in (1, 10):
        answer = gateway.search("walrus", limit=limit)
        assert answer["hits"]
        assert size(answer) <= 20_000
        assert size(gateway.search("walrus", limit=limit, most_characters=10_000)) <= 10_000
    message = gateway.search("walrus")["hits"][0]["message_id"]
    page = gateway.search(session_id="x" * 500, around_message_id=message, window=20)
    assert size(page) <= 20_000
    for at in range(50):
        opened = gateway.open_session(f"{at}" * 200)
        gateway.finalize_turn(opened, said(["a request " * 500, "yes"]))
    assert size(gateway.search(limit=50)) <= 20_000


def test_what_was_left_out_for_want_of_room_is_on_the_next_page(gateway: Gateway) -> None:
    session = gateway.open_session("s" * 400)
    gateway.finalize_turn(session, said([f"walrus {at} " + "pad " * 300 for at in range(20)]))
    seen: list[int] = []
    page = None
    for _ in range(40):
        answer = gateway.search("walrus", limit=10, page=page, most_characters=10_000)
        seen += [hit["position"] for hit in answer["hits"]]
        page = answer["next"]
        if page is None:
            break
    assert sorted(seen) == list(range(20))


def test_owners_see_their_own_sessions_alone(database: Database, gateway: Gateway) -> None:
    session = gateway.open_session("mine")
    gateway.finalize_turn(session, said(["walrus", "yes"]))
    message = gateway.search("walrus")["hits"][0]["message_id"]
    with gateway_on(url_of(database), owner="other") as other:
        assert other.search("walrus")["hits"] == []
        assert other.search()["sessions"] == []
        with pytest.raises(SessionNotFound):
            other.search("walrus", session_id="mine")
        with pytest.raises(SessionNotFound):
            other.search(session_id="mine", around_message_id=message)
        other.finalize_turn(other.open_session("mine"), said(["another", "yes"]))
        with pytest.raises(RequestError):
            other.search(session_id="mine", around_message_id=message)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"around_message_id": 1}, "around_message_id"),
        ({"session_id": "s"}, "session_id"),
        ({"query": 7}, "query"),
        ({"query": "x", "limit": 11}, "limit"),
        ({"query": "x", "limit": True}, "limit"),
        ({"query": "x", "roles": "user"}, "roles"),
        ({"query": "x", "roles": ["narrator"]}, "roles"),
        ({"query": "x", "since": "yesterday"}, "since"),
        ({"page": "x"}, "page"),
        ({"quary": "x"}, "quary"),
        ({"most_characters": 100}, "most_characters"),
        ({"session_id": "s", "around_message_id": "1"}, "around_message_id"),
    ],
)
def test_arguments_that_cannot_be_meant_are_reported(
    gateway: Gateway, asked: dict[str, Any], field: str
) -> None:
    with pytest.raises(RequestError) as error:
        gateway.search(**asked)
    assert error.value.field == field


def test_the_mark_of_another_question_is_refused(gateway: Gateway) -> None:
    session = gateway.open_session("s")
    gateway.finalize_turn(session, said(["walrus"] * 6))
    mark = gateway.search("walrus", limit=2)["next"]
    assert gateway.search("walrus", limit=2, page=mark)["hits"]
    for query, page in (("walruses", mark), ("walrus", "x"), ("walrus", ""), ("walrus", "W10=")):
        with pytest.raises(SearchMarkError):
            gateway.search(query, page=page)


def test_dates_may_be_days_or_moments(gateway: Gateway) -> None:
    gateway.finalize_turn(gateway.open_session("s"), said(["walrus", "yes"]))
    assert gateway.search("walrus", since="2000-01-01")["hits"]
    assert gateway.search("walrus", since="2000-01-01T10:00:00+02:00")["hits"]
    assert gateway.search("walrus", until="2000-01-01T10:00:00Z")["hits"] == []


def test_the_tool_names_just_what_a_search_takes(gateway: Gateway) -> None:
    properties = SESSION_SEARCH_TOOL["function"]["parameters"]["properties"]
    arguments: dict[str, Any] = dict.fromkeys(properties)
    usual = {"window": 5, "limit": 3}
    assert gateway.search(**{**arguments, **usual})["form"] == "browse"
    json.dumps(dict(SESSION_SEARCH_TOOL))
