"""What can be asked, and what it finds: the same on both databases, indexed or not yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.engine import Database
from tests.support.sessions.gateways import emptied
from tests.support.sessions.searching import find, indexed, marked, positions, said, talk
from tests.support.sessions.stored_session import StoredSession
from tests.tiers import examples

pytestmark = pytest.mark.both_databases

TEXTS = (
    "The quick brown fox jumps over the lazy dog",  # 0
    "Compacted archives were running out of room",  # 1
    "请帮我预订故宫附近的酒店，谢谢",  # 2
    "北京大学的图书馆在哪里？",  # 3
    "my_file.py returns 100% of user_id=42 rows",  # 4
    "iPhone手机坏了，needs repair",  # 5
    "Café naïve ＦＵＬＬ width ÜBER",  # 6
    "the fox and the dog are friends; a dog barks",  # 7
    "茶",  # 8
    "서울에서 만나요 東京タワー",  # 9
    "reconfigured the configuration of afterturn/conf.d",  # 10
)
FINDS: tuple[tuple[str, set[int | str]], ...] = (
    # Words: any, those with all of them first.
    ("fox", {0, 7}),
    ("lazy friends", {0, 7}),
    ("nothingatall fox", {0, 7}),
    ("run", {1}),
    ("compaction", {1}),
    ("ARCHIVE", {1}),
    # Phrases.
    ('"brown fox"', {0}),
    ('"fox brown"', set()),
    ('"the dog"', {7}),
    ('"the lazy dog"', {0}),
    # Operators, in capitals alone.
    ("fox AND lazy", {0}),
    ("fox NOT lazy", {7}),
    ("archives OR barks", {1, 7}),
    ("fox AND lazy OR barks AND friends", {0, 7}),
    ("fox dog NOT friends", {0}),
    ('fox NOT "lazy dog"', {7}),
    ("NOT fox", set()),
    ("foo|fox", {0, 7}),
    # Beginnings of words.
    ("jum*", {0}),
    ("configurat*", {10}),
    ("北京*", {3}),
    ('"lazy do*"', {0}),
    # CJK: one, two and more characters, in the middle of a text.
    ("故宫", {2}),
    ("酒店", {2}),
    ("附近的酒店", {2}),
    ("图书馆", {3}),
    ('"北京大学"', {3}),
    ("茶", {8}),
    ("店", {2}),
    ("서울", {9}),
    ("タワー", {9}),
    ("東京", {9}),
    # A change of script is a border, on either side.
    ("iphone", {5}),
    ("手机", {5}),
    ("repair 手机", {5}),
    # Case, accents and wide letters.
    ("cafe NAIVE", {6}),
    ("full über", {6}),
    # What is no word is text.
    ("my_file.py", {4}),
    ("100%", {4}),
    ("user_id", {4}),
    # Pieces of words, where no word is found.
    ("ompacte", {1}),
    ("terturn/con", {10}),
    ("ser_id=4", {4}),
    ("r_i", {4}),
    ("xyz", set()),
    ("", set()),
    ("*", set()),
    ('"', set()),
    ("AND OR NOT", set()),
    ("%", set()),
)


@pytest.fixture
def filled(database: Database) -> StoredSession:
    """Return a session of `TEXTS` that nobody has indexed yet."""
    session = StoredSession.create(database)
    session.append(said(TEXTS))
    return session


def test_every_form_of_a_query_finds_what_it_means(
    database: Database, filled: StoredSession
) -> None:
    unindexed = {query: set(positions(database, query)) for query, _ in FINDS}
    indexed(database)
    by_index = {query: set(positions(database, query)) for query, _ in FINDS}
    assert by_index == dict(FINDS)
    assert unindexed == by_index


def test_messages_with_all_words_come_first(database: Database) -> None:
    talk(database, "alpha", "beta beta beta beta", "alpha gamma", "alpha beta", "gamma")
    assert positions(database, "alpha beta")[0] == 3
    assert set(positions(database, "alpha beta")) == {0, 1, 2, 3}


def test_a_rare_word_counts_more_than_a_common_one(database: Database) -> None:
    talk(database, *["common"] * 8, "rare")
    assert positions(database, "common rare")[0] == 8


def test_words_that_stand_together_as_typed_come_first(database: Database) -> None:
    talk(database, "北大京学", "我在北京大学", "京大的北京和大学", "大学")
    assert positions(database, "北京大学")[0] == 1


def test_an_english_question_in_a_whole_sentence_finds_its_words(database: Database) -> None:
    talk(database, "The reservation was cancelled", "It rains", "and what is the weather")
    assert positions(database, "Why was the reservation of my aunt cancelled back then?") == [0]


def test_an_excerpt_shows_what_was_found(database: Database) -> None:
    talk(database, "fill " * 200 + "a hidden treasure map " + "fill " * 200, "故宫在北京")
    assert "hidden [treasure]" in marked(find(database, "treasures"))[0]
    assert len(marked(find(database, "treasure"))[0]) < 260
    assert marked(find(database, "故宫")) == ["[故宫]在北京"]
    assert "h[idden]" in marked(find(database, "idden"))[0]


def test_a_long_message_is_found_by_words_anywhere_in_it_and_once(database: Database) -> None:
    text = "start " + "filler words here " * 4_000 + "needle in the end"
    session = talk(database, text, "other")
    assert len(text) > 70_000
    assert positions(database, "needle") == [0]
    assert positions(database, "filler") == [0]
    assert positions(database, '"needle in the end"') == [0]
    assert find(database, "needle").hits[0].excerpt.text.endswith("needle in the end")
    assert session.record().live_messages == 2


def test_what_a_tool_was_called_with_and_gave_back_is_found(database: Database) -> None:
    session = StoredSession.create(database)
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "book_hotel", "arguments": '{"city": "\\u5317\\u4eac", "n": 7}'},
    }
    session.append(
        [
            {"role": "user", "content": [{"type": "text", "text": "parts and pieces"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "reserved room kingfisher"},
            {"role": "assistant", "content": "done"},
        ]
    )
    for _ in range(2):
        assert positions(database, "pieces") == [0]
        assert positions(database, "book_hotel") == [1]
        assert positions(database, "北京") == [1]
        assert positions(database, "kingfisher") == [2]
        indexed(database)


def test_what_the_recall_tool_gave_back_is_not_found_again(database: Database) -> None:
    session = StoredSession.create(database)
    call = {"id": "c", "type": "function", "function": {"name": "session_search", "arguments": ""}}
    session.append(
        [
            {"role": "user", "content": "the secret is saffron"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": "c",
                "name": "session_search",
                "content": "saffron saffron",
            },
            {"role": "assistant", "content": "found"},
        ]
    )
    indexed(database)
    assert positions(database, "saffron") == [0]


WORDS = ("alpha", "beta", "running", "runs", "北京", "京大", "北", "x_y", "it's", "100%", "né")
TEXT = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
QUERY = st.lists(
    st.sampled_from((*WORDS, "AND", "OR", "NOT", '"', '"alpha beta"', "al*", "北*", "run")),
    max_size=6,
).map(" ".join)
PROPERTY = examples(40, any_health=True)


@PROPERTY
@given(texts=st.lists(TEXT, min_size=1, max_size=6), queries=st.lists(QUERY, max_size=4))
def test_an_index_finds_just_what_reading_every_message_finds(
    lasting_database: Database, texts: list[str], queries: list[str]
) -> None:
    emptied(lasting_database)
    session = StoredSession.create(lasting_database)
    session.append(said(texts))
    read = [set(positions(lasting_database, query)) for query in queries]
    indexed(lasting_database)
    assert [set(positions(lasting_database, query)) for query in queries] == read


@PROPERTY
@given(query=st.text(max_size=60))
def test_no_query_raises(lasting_database: Database, query: str) -> None:
    if not find(lasting_database, "anchor").hits:
        talk(lasting_database, "anchor", "北京 \x00 \ud800 \u202e", session_id="anchor")
    find(lasting_database, query)


SIGNS = st.text(
    st.sampled_from("\"*^(){}[]:-+~\\/%_'`|&!<>.,;AND OR NOT北a\x00\ud83d"), max_size=25
)


@PROPERTY
@given(query=SIGNS)
def test_no_query_of_signs_raises(lasting_database: Database, query: str) -> None:
    if not find(lasting_database, "anchor").hits:
        talk(lasting_database, "anchor", "北京", session_id="anchor")
    find(lasting_database, query)


def test_a_very_long_query_is_cut(database: Database) -> None:
    talk(database, "alpha")
    assert positions(database, "alpha " + "noise " * 100_000) == [0]
    assert positions(database, "北" * 50_000) == []
