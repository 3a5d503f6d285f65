"""`afterturn search`, `afterturn db reindex`, and what the doctor says of the index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from afterturn.doctor.database import MANY_WAITING, check_search
from afterturn.doctor.finding import Status
from afterturn.exits import Exit
from producers import Gateway
from storage import search
from storage.engine import Database
from tests.support.programs.command_line import ESCAPE, invoke
from tests.support.programs.person import stored
from tests.support.sessions.gateways import gateway_on
from tests.support.sessions.searching import said, talk


@pytest.fixture
def url(sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return sqlite_url


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with gateway_on(url) as opened:
        session = opened.open_session("trip", source="telegram", title="To the zoo")
        opened.finalize_turn(
            session,
            said(["Where is the walrus?", "In the [north]\x1b[31m", "谢谢，海象呢", "走了"]),
        )
        hers = opened.open_session("hers", owner="ann")
        opened.finalize_turn(hers, said(["my own walrus", "yes"]))
        yield opened


def damage(url: str) -> None:
    with stored(url) as database:
        search.index_pending(database)
        with database.write() as connection:
            connection.execute(sql("DROP TABLE search_words_1"))


def test_a_search_shows_where_and_what(gateway: Gateway) -> None:
    ended = invoke("search", "walrus north")
    assert ended.code == Exit.OK
    assert "trip “To the zoo”  telegram, " in ended.out
    assert "     user  Where is the walrus?" in ended.out
    assert "assistant  In the [north]" in ended.out
    assert ESCAPE not in ended.out
    assert "my own walrus" not in ended.out
    assert "海象" in invoke("search", "海象").out


def test_a_search_that_finds_nothing_says_so(gateway: Gateway) -> None:
    ended = invoke("search", "narwhal")
    assert (ended.code, ended.out) == (Exit.OK, "")
    assert "Nothing was found." in ended.err


def test_filters_narrow_it_and_pages_follow(gateway: Gateway) -> None:
    def found(*options: str) -> list[tuple[str, int]]:
        document = invoke("search", "walrus north 海象", "--json", *options).document
        return sorted((hit["session"]["id"], hit["position"]) for hit in document["hits"])

    assert found() == [("trip", 0), ("trip", 1), ("trip", 2)]
    assert found("--role", "assistant") == [("trip", 1)]
    assert found("--source", "cli") == []
    assert found("--session", "trip") == found()
    assert found("--until", "2001-01-01") == []
    first = invoke("search", "walrus north 海象", "--json", "--limit", "2").document
    rest = found("--limit", "2", "--page", first["next"])
    assert len(first["hits"]) == 2
    assert sorted([*rest, *((h["session"]["id"], h["position"]) for h in first["hits"])]) == found()


def test_a_message_is_shown_among_its_neighbours(gateway: Gateway) -> None:
    document = invoke("search", "north", "--json").document
    message = str(document["hits"][0]["message_id"])
    ended = invoke("search", "--session", "trip", "--around", message, "--window", "1")
    assert ended.code == Exit.OK
    assert "0 user" in ended.out
    assert "2 user" in ended.out
    assert "3 assistant" not in ended.out
    assert "Behind: afterturn search --session trip --around" in ended.err
    shown = invoke("search", "--session", "trip", "--around", message, "--json").document
    assert [line["position"] for line in shown["messages"]] == [0, 1, 2, 3]


def test_without_a_query_the_last_sessions_are_listed(gateway: Gateway) -> None:
    ended = invoke("search")
    assert "trip" in ended.out
    assert "Where is the walrus?" in ended.out
    assert "hers" not in ended.out
    assert [one["id"] for one in invoke("search", "--json").document["sessions"]] == ["trip"]


def test_a_search_over_all_owners_is_logged_without_its_words(gateway: Gateway) -> None:
    ended = invoke("search", "walrus", "--all-owners")
    assert "ann: hers" in ended.out
    assert "local: trip" in ended.out
    assert "searched the sessions of all owners: 2 hits of owners 'ann', 'local'" in ended.err
    assert "walrus" not in ended.err
    (entry,) = invoke("audit", "--json", "--action", "searched_across_owners").document["entries"]
    assert entry["facts"] == {"what": "search", "found": 2, "owners": ["ann", "local"]}
    assert entry["actor"]


@pytest.mark.parametrize(
    ("asked", "code", "expected"),
    [
        (["x", "--role", "narrator"], Exit.USAGE, "roles: knows user"),
        (["x", "--since", "soon"], Exit.USAGE, "--since: is no date"),
        (["x", "--page", "soon"], Exit.USAGE, "belongs to no page of this search"),
        (["--page", "soon"], Exit.USAGE, "page: is not the next"),
        (["--around", "3"], Exit.USAGE, "--around needs --session"),
        (["--session", "trip", "--around", "999"], Exit.NOT_FOUND, "has no message 999"),
        (["x", "--session", "hers"], Exit.NOT_FOUND, "has no session 'hers'"),
        (["--all-owners"], Exit.USAGE, "--all-owners needs a QUERY"),
        (["x", "--all-owners", "--session", "trip"], Exit.USAGE, "belongs to an owner"),
    ],
)
def test_what_cannot_be_meant_is_reported(
    gateway: Gateway, asked: list[str], code: Exit, expected: str
) -> None:
    ended = invoke("search", *asked)
    assert ended.code == code
    assert expected in ended.err


def test_a_broken_index_is_reported_and_built_anew(url: str, gateway: Gateway) -> None:
    damage(url)
    ended = invoke("search", "walrus")
    assert "Where is the walrus?" in ended.out
    assert "run `afterturn db reindex`" in ended.err
    checks = {one["check"]: one for one in invoke("doctor", "--json").document["checks"]}
    assert checks["search index"]["status"] == "fail"
    assert "afterturn db reindex" in checks["search index"]["advice"]

    assert "Indexed 6 messages and 0 summaries anew." in invoke("db", "reindex").out
    assert "Note" not in invoke("search", "walrus").err
    checks = {one["check"]: one for one in invoke("doctor", "--json").document["checks"]}
    assert (checks["search index"]["status"], checks["search index"]["detail"]) == (
        "ok",
        "6 documents",
    )
    assert invoke("db", "reindex", "--json").document == {"messages": 6, "summaries": 0}


def test_the_doctor_reports_the_state_of_the_index(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_search(database).detail == "not made yet, 0 messages waiting"
    session = talk(database, "one walrus", "two")
    assert (check_search(database).status, check_search(database).detail) == (
        Status.OK,
        "2 documents",
    )
    session.append(said(["three"]))
    assert check_search(database).detail == "2 documents, 1 waiting"
    with database.write() as connection:
        connection.execute(
            sql("INSERT INTO search_pending (number) VALUES (:number)"),
            [{"number": 10**9 + at} for at in range(MANY_WAITING)],
        )
    assert "wait to be indexed" in check_search(database).detail
    assert not search.index_pending(database).more
    with database.write() as connection:
        connection.execute(sql("UPDATE search_generations SET rules = 'older'"))
    assert check_search(database).status is Status.WARN
