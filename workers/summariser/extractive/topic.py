"""Which lines concern a topic that a person named."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"[^\W_]+")
_FEWEST_LETTERS = 4
_COMMON = re.compile(
    r"about|after|anything|before|does|everything|from|have|into|only|other|over|than|that|their"
    r"|them|then|there|these|they|thing|this|those|what|when|where|which|with|your"
)
_PAIR = 2


def terms_of(topic: str) -> frozenset[str]:
    """Give what a line holds one of when it concerns `topic`; none for a topic that says nothing.

    Words of four letters and more, without the ending of English plurals; shorter ones that are
    names by their capitals or digits; of a run of Chinese, Japanese or Korean each pair of
    characters, since nothing parts the words.
    """
    return frozenset(term for word in _WORD.findall(topic) for term in _terms(word))


def concerns(line: str, terms: frozenset[str]) -> bool:
    """True when `line` holds one of `terms`."""
    folded = line.casefold()
    return any(term in folded for term in terms)


def _terms(word: str) -> Iterator[str]:
    folded = word.casefold()
    if _is_dense(word):
        yield from (folded[i : i + _PAIR] for i in range(max(1, len(folded) - 1)))
    elif len(word) >= _FEWEST_LETTERS and not _COMMON.fullmatch(folded):
        yield folded.removesuffix("s")
    elif len(word) >= _PAIR and (word.isupper() or any(map(str.isdigit, word))):
        yield folded


def _is_dense(word: str) -> bool:
    return any("\u3041" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7a3" for letter in word)
