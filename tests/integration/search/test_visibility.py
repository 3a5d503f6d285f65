"""What is found, and whose: each original once, whatever became of it, and nothing of others."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sqlalchemy import text as sql

from storage.engine import Database
from storage.search import SUMMARY, Scope, discover
from tests.support.sessions.searching import OWNER, find, indexed, places, positions, said, talk

pytestmark = pytest.mark.both_databases

WORDS = ("alpha", "beta", "gamma", "delta", "北京", "故宫", "epsilon", "zeta")
QUERIES = (*WORDS, "alpha beta", '"beta gamma"', "delta NOT alpha", "gamma OR zeta", "ep*", "psilo")


def nothing(_database: Database) -> None:
    """Do nothing: all is found before it is indexed."""


def messages_found(database: Database, query: str) -> list[tuple[str, int | str]]:
    return sorted(place for place in places(find(database, query)) if place[1] != SUMMARY)


def made_up(turns: int) -> list[str]:
    dice = random.Random(7)
    return [" ".join(dice.choices(WORDS, k=dice.randint(1, 5))) for _ in range(2 * turns)]


def test_twenty_passes_change_nothing_of_what_is_found(database: Database) -> None:
    texts = made_up(30)
    session = talk(database, *texts)
    before = {query: messages_found(database, query) for query in QUERIES}
    assert all(before.values())
    for passes in range(20):
        rows = [row for row in session.view() if row.role == "assistant"][:1]
        session.absorb(rows, f"summary of pass {passes}")
        if passes % 4 == 3:
            session.defrag(f"shorter after pass {passes}")
    assert {query: messages_found(database, query) for query in QUERIES} == before
    indexed(database)
    assert {query: messages_found(database, query) for query in QUERIES} == before
    for query in QUERIES:
        found = places(find(database, query))
        assert len(found) == len(set(found))


def test_a_live_summary_is_found_like_a_message_and_its_former_versions_are_not(
    database: Database,
) -> None:
    session = talk(database, *made_up(6))
    answers = [row for row in session.view() if row.role == "assistant"]
    for step in (nothing, indexed):
        session.absorb([answers.pop(0)], "walrus first version")
        session.absorb([answers.pop(0)], "walrus second version")
        step(database)
        assert positions(database, "walrus") == [SUMMARY]
        assert "second" in find(database, "walrus").hits[0].excerpt.text
        session.defrag("walrus third version")
        step(database)
        (hit,) = find(database, "walrus").hits
        assert (hit.role, hit.message_id) == (SUMMARY, None)
        assert "third" in hit.excerpt.text
        assert session.undo() is not None
        step(database)
        assert "second" in find(database, "walrus").hits[0].excerpt.text
        while session.undo() is not None:
            pass
        assert positions(database, "walrus") == []
        answers = [row for row in session.view() if row.role == "assistant"]


def test_an_original_is_found_once_before_and_after_it_was_archived_and_brought_back(
    database: Database,
) -> None:
    session = talk(database, "question", "the marmot sleeps", "thanks", "bye")
    for _ in range(3):
        assert positions(database, "marmot") == [1]
        session.absorb([row for row in session.view() if row.position == 1], "a summary")
        (hit,) = find(database, "marmot").hits
        assert hit.archived
        assert hit.covered_by is not None
        assert hit.covered_by.text == "a summary"
        session.undo()
        (hit,) = find(database, "marmot").hits
        assert (hit.archived, hit.covered_by) == (False, None)


def test_rewound_messages_are_nowhere(database: Database) -> None:
    session = talk(database, "first otter", "answer one", "second otter", "answer two", "third")
    session.absorb([row for row in session.view() if row.position == 3], "otter summary")
    indexed(database)
    assert set(positions(database, "otter")) == {0, 2, SUMMARY}
    session.rewind(2)
    assert positions(database, "otter") == [0]
    hit = find(database, "otter").hits[0]
    lines = (*hit.window, *hit.opening, *hit.ending)
    assert {line.position for line in lines} == {0, 1}
    session.append(said(["fourth otter", "answer"]))
    assert set(positions(database, "otter")) == {0, 5}
    assert {line.position for line in find(database, "answer").hits[0].window} == {0, 1, 5, 6}


def test_two_owners_with_the_same_words_never_meet(database: Database) -> None:
    texts = made_up(4)
    ours = talk(database, *texts, session_id="ours")
    theirs = talk(database, *texts, session_id="theirs", owner="p")
    theirs.absorb([row for row in theirs.view() if row.position == 1], "alpha 北京 summary")
    for step in (nothing, indexed):
        step(database)
        for query in QUERIES:
            for owner, session in (("o", ours), ("p", theirs)):
                found = find(database, query, owner=owner)
                assert {hit.session.key for hit in found.hits} <= {session.key}
                assert {hit.session.owner for hit in found.hits} <= {owner}
            assert find(database, query, owner="q").hits == ()
            assert find(database, query, owner="p", session=ours.key).hits == ()
    assert find(database, "alpha 北京 summary", owner="p").hits[0].role == SUMMARY


def test_owners_are_names_of_any_kind(database: Database) -> None:
    for at, owner in enumerate(("o'; --", "名\x00", "%", "o")):
        talk(database, f"heron {at}", session_id=f"s{at}", owner=owner)
    for at, owner in enumerate(("o'; --", "名\x00", "%", "o")):
        assert places(find(database, "heron", owner=owner)) == [(f"s{at}", 0)]


def test_filters_leave_out_what_they_say(database: Database) -> None:
    one = talk(database, "lynx asked", "lynx answered", session_id="one", source="cli")
    two = talk(database, "lynx again", session_id="two", source="telegram")
    one.absorb([row for row in one.view() if row.position == 1], "lynx summary")
    indexed(database)

    def found(**filters: Any) -> set[tuple[str, int | str]]:
        return set(places(find(database, "lynx", **filters)))

    everything = {("one", 0), ("one", 1), ("one", SUMMARY), ("two", 0)}
    assert found() == everything
    assert found(source="telegram") == {("two", 0)}
    assert found(session=one.key) == everything - {("two", 0)}
    assert found(roles=("user",)) == {("one", 0), ("two", 0)}
    assert found(roles=("assistant", SUMMARY)) == {("one", 1), ("one", SUMMARY)}
    assert found(roles=(SUMMARY,)) == {("one", SUMMARY)}
    assert found(roles=()) == set()
    with database.write() as connection:
        connection.execute(
            sql("UPDATE messages SET created_at = 1000 WHERE session_key = :key"), {"key": two.key}
        )
    assert found(until=1_001) == {("two", 0)}
    assert found(until=1_000) == set()
    assert found(since=1_001) == everything - {("two", 0)}
    assert found(since=1_000) == everything


def test_old_hits_are_not_crowded_out_by_newer_ones_that_a_filter_leaves_out(
    database: Database,
) -> None:
    talk(database, "heron of old", session_id="old", source="email")
    talk(database, *["heron"] * 600, session_id="new", source="cli")
    assert places(find(database, "heron", source="email")) == [("old", 0)]
    assert ("old", 0) in places(find(database, "heron old", limit=1))


def test_pages_neither_repeat_nor_skip(database: Database) -> None:
    texts = [f"crane {'tall ' * (at % 5)}{at}" for at in range(90)]
    session = talk(database, *texts)
    whole = places(find(database, "crane tall"))
    assert len(whole) == 90
    seen = []
    mark: str | None = None
    for page in range(100):
        found = discover(database, "crane tall", Scope(OWNER), limit=7, after=mark)
        seen += places(found)
        mark = found.next
        if mark is None:
            break
        # What happens between two pages shows in neither.
        session.append(said(["crane tall tall tall tall tall"]))
        if page % 2:
            indexed(database)
        session.absorb([row for row in session.view() if row.role == "assistant"][:1], "a crane")
    assert [place for place in seen if place[1] != SUMMARY] == whole


def test_a_window_and_bookends_are_around_each_hit(database: Database) -> None:
    talk(database, *[f"line {at}" for at in range(30)], "the badger", "line 31", session_id="long")
    talk(database, "badger", session_id="short")
    hits = {hit.session.id: hit for hit in find(database, "badger").hits}
    long, short = hits["long"], hits["short"]
    assert [line.position for line in long.window] == [25, 26, 27, 28, 29, 30, 31]
    assert [line.position for line in long.opening] == [0, 1, 2]
    assert [line.position for line in long.ending] == [29, 30, 31]
    assert [line.text for line in short.window] == ["badger"]
    assert [line.text for line in (*short.opening, *short.ending)] == ["badger"] * 2
    assert long.session.source == "cli"
    assert long.at > 0
