"""How texts are cut into words, queries read, texts ranked and excerpts taken."""

from __future__ import annotations

import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.search.documents import OVERLAP, PART, parts, searchable
from storage.search.matching import EXCERPT, excerpt, match, match_fragments
from storage.search.query import MOST_OPERANDS, Operand, clauses_of, parse
from storage.search.results import Mark, SearchMarkError, read_mark, write_mark
from storage.search.scope import Label, label, triple
from storage.search.words import MOST_WORD, stem, words_of
from tests.tiers import examples

PROPERTY = examples(100)


def terms(text: str) -> list[str]:
    return [word.term for word in words_of(text)]


def found(query: str, text: str) -> bool:
    return match(parse(query), text, {}) is not None


@pytest.mark.parametrize(
    "forms",
    [
        ("compact", "compacted", "compacting", "compaction", "compactions"),
        ("run", "runs", "running"),
        ("relate", "relational", "relations"),
        ("hop", "hopping", "hopped"),
        ("hope", "hoping", "hoped"),
        ("happy", "happiness"),
        ("agree", "agreed", "agreeing"),
        ("control", "controlling", "controlled"),
        ("reservation", "reservations"),
        ("adjust", "adjustable", "adjustment"),
    ],
)
def test_forms_of_a_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


def test_different_words_keep_different_stems() -> None:
    words = ("hop", "hope", "sing", "single", "universe", "flight", "fly", "red", "reed", "is")
    assert len({stem(word) for word in words}) == len(words)


@PROPERTY
@given(st.text(string.ascii_lowercase, min_size=1, max_size=20))
def test_a_stem_is_never_empty_and_no_longer_than_a_letter_more(word: str) -> None:
    assert 1 <= len(stem(word)) <= len(word) + 1


def test_cjk_is_cut_into_pairs_and_a_last_character() -> None:
    assert terms("北京大学") == ["北京", "京大", "大学", "学"]
    assert terms("茶") == ["茶"]
    assert terms("iPhone手机x") == ["iphon", "手机", "机", "x"]


def test_case_accents_width_and_signs_do_not_count() -> None:
    assert terms("Café ÜBER ＡＢＣ") == terms("cafe uber abc")
    assert terms("a_b-c.d/e") == ["a", "b", "c", "d", "e"]
    assert terms("हिन्दी में") == ["हिन्दी", "में"]
    assert terms("\x00\ud800 %^&") == []


@PROPERTY
@given(st.text(max_size=200))
def test_every_word_stands_where_it_says_and_can_be_indexed(text: str) -> None:
    for word in words_of(text):
        assert 0 <= word.start < word.end <= len(text)
        assert 0 < len(word.term) <= MOST_WORD + 1
        assert not set(word.term + word.form) & set(" '\"\\:*&|!()<>~@\x00")
        word.term.encode()


@PROPERTY
@given(st.text(max_size=200))
def test_any_text_is_a_query_of_a_bounded_size(text: str) -> None:
    query = parse(text)
    for alternative in query.alternatives:
        for group in (*alternative.required, *alternative.excluded):
            assert 0 < len(group.operands) <= MOST_OPERANDS
    assert all(len(fragment) >= 3 for fragment in query.fragments)
    clauses_of(query)


def test_a_text_answers_itself() -> None:
    for text in ("The quick fox", "北京大学 iphone手机", "a_b-c", "v1.2.3", "茶"):
        assert found(text, text)
        assert found(f'"{text}"', text)


def test_operators_bind_not_before_and_before_or() -> None:
    query = "a AND b OR c NOT d"
    assert found(query, "a b d")
    assert found(query, "c")
    assert not found(query, "a c d")
    assert not found(query, "b")


@pytest.mark.parametrize("query", ["AND a", "a AND", "OR a OR", "a NOT", "a AND AND a", "AND a OR"])
def test_operators_without_operands_are_nothing(query: str) -> None:
    assert found(query, "a")
    assert not found(query, "b and or not")


def test_lower_case_and_quoted_operators_are_words() -> None:
    assert parse('"AND"').operands == (Operand(("and",)),)
    assert parse("cats not dogs").operands == (Operand(("cat",)), Operand(("dog",)))


def test_common_words_count_where_there_are_no_others() -> None:
    assert [one.terms for one in parse("what is the refund").operands] == [("refund",)]
    assert len(parse("to be or not to be").operands) == 4
    assert found('"to be or not"', "To be, or not to be")


def test_more_of_the_words_and_rarer_ones_rank_higher() -> None:
    query = parse("alpha beta")
    weights = {Operand(("alpha",)): 1.0, Operand(("beta",)): 5.0}

    def score(text: str) -> float:
        matched = match(query, text, weights)
        assert matched is not None
        return matched.score

    assert score("alpha beta") > score("beta") > score("alpha")
    assert score("beta beta") > score("beta")
    assert score("beta") > score("beta " + "filler " * 300)


def test_a_fragment_is_found_inside_of_words_and_signs() -> None:
    matched = match_fragments(["ser_id=4"], "the USER_ID=42")
    assert matched is not None
    assert matched.spans == ((5, 13),)
    assert match_fragments(["x_id"], "xyid") is None


@PROPERTY
@given(st.text(max_size=600), st.lists(st.tuples(st.integers(0, 600), st.integers(1, 9))))
def test_an_excerpt_is_short_and_its_marks_are_of_the_text(
    text: str, places: list[tuple[int, int]]
) -> None:
    spans, at = [], 0
    for gap, length in places:
        start = at + gap % 40
        if start + length <= len(text):
            spans.append((start, start + length))
            at = start + length + 1
    piece = excerpt(text, spans)
    assert len(piece.text) <= EXCERPT + 2
    originals = [text[start:end] for start, end in spans]
    for start, end in piece.marks:
        assert any(piece.text[start:end] in original for original in originals)
    assert piece.marked("", "") == piece.text
    assert bool(piece.marks) == bool(spans)


@PROPERTY
@given(st.lists(st.sampled_from(["word ", "北京", "\n", "x" * 900]), max_size=60))
def test_parts_cover_a_text_and_overlap(pieces: list[str]) -> None:
    text = "".join(pieces)
    found_parts = parts(text)
    assert found_parts[0][0] == 0
    assert found_parts[-1][1] == len(text)
    for (_, end), (start, _) in pairwise(found_parts):
        assert end - OVERLAP <= start < end
    assert all(end - start <= PART for start, end in found_parts)


def test_calls_are_searched_by_name_and_unescaped_arguments() -> None:
    fields = (
        '{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"book",'
        '"arguments":"{\\"city\\": \\"\\\\u5317\\\\u4eac\\", \\"n\\": [1, true]}"}},'
        '{"function":{"name":"bad","arguments":"{not json"}},{"function":null},7]}'
    )
    text = searchable("assistant", None, fields)
    for part in ("book", "city", "北京", "bad", "{not json"):
        assert part in text


def test_a_mark_comes_back_and_only_for_its_question() -> None:
    mark = Mark((7, 3), (1, 2, 400), (0, 1, -52_489, -391_424))
    assert read_mark(write_mark(mark, "q"), "q") == mark
    with pytest.raises(SearchMarkError):
        read_mark(write_mark(mark, "q"), "other")


@PROPERTY
@given(st.text(max_size=80))
def test_any_other_text_is_no_mark(text: str) -> None:
    with pytest.raises(SearchMarkError):
        read_mark(text, "q")


def test_labels_distinguish_owners_sessions_and_sources() -> None:
    given_ = [(kind, value) for kind in Label for value in ("1", "2", "o'\x00", "\ud800")]
    assert len({label(*one) for one in given_}) == len(given_)
    assert len({triple(*one) for one in given_}) == len(given_)
    assert {len(triple(*one)) for one in given_} == {3}
