"""Thinking aloud is not part of a summary."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.summariser.thinking import VisibleText


def visible(*pieces: str) -> str:
    text = VisibleText()
    for piece in pieces:
        text.feed(piece)
    return text.text()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("plain", "plain"),
        ("<think>hm</think>yes", "yes"),
        ("<THINK>hm</Think>yes", "yes"),
        ("a<think>hm</think>b<think>well</think>c", "abc"),
        ("<think>never closed", ""),
        ("kept until<think>never closed", ""),
        ("opened by the template</think>yes", "yes"),
        ("a < b, <thin and <thinner>", "a < b, <thin and <thinner>"),
        ("ends like a tag <thi", "ends like a tag <thi"),
        ("", ""),
    ],
)
def test_only_what_stands_outside_of_think_blocks_is_visible(said: str, meant: str) -> None:
    assert visible(said) == meant


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "</th", "ink>", "text ", "字"])),
    st.lists(st.integers(0, 40)),
)
def test_where_the_pieces_are_cut_makes_no_difference(parts: list[str], cuts: list[int]) -> None:
    whole = "".join(parts)
    edges = [0, *sorted(cut for cut in cuts if cut <= len(whole)), len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(edges)]
    assert visible(*pieces) == visible(whole)


def test_hidden_text_does_not_count_as_size() -> None:
    text = VisibleText()
    text.feed("<think>" + "hm " * 1_000 + "</think>four")
    assert text.chars == 4
