"""Words of a text as the index knows them: normalised, stemmed, CJK in overlapping pairs.

Stored text and queries are cut alike, on both databases, so a word is found exactly where this
module places it. A change of its rules needs a new `RULES` and makes every index outdated.

Of a run of CJK characters every two neighbours are a word, and so is its last character: each
character but the last begins a pair, so a single one is found as the beginning of a word. A change
of script is a border between words.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from snowballstemmer.english_stemmer import EnglishStemmer

RULES = "2"
"""Version of the rules. An index stores with which one it was made."""

MOST_WORD = 64
"""Characters of a word that count; longer ones (keys, encoded files) are cut to it."""

_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
_MARKS = "".join(
    re.escape(chr(code))
    for code in range(0x300, 0x1E00)
    if unicodedata.category(chr(code)) in ("Mn", "Mc")
)
_WORD = re.compile(f"([{_CJK}]+)|[^\\W_{_CJK}](?:[^\\W_{_CJK}]|[{_MARKS}])*")
_PLAIN_HAN = re.compile("[\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+")
_ENGLISH = re.compile("[a-z]+")


@dataclass(frozen=True, slots=True)
class Word:
    """A word at its place in a text: `term` is what the index has, `form` the word as written but
    normalised, from character `start` up to `end`."""

    term: str
    form: str
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """Return the words of `text`, in order."""
    found: list[Word] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        if match[1] is None:
            term, form = _terms(match[0])
            if term:
                found.append(Word(term, form, start, end))
            continue
        run = normalise_run(match[1])
        found.extend(
            Word(run[at : at + 2], run[at : at + 2], start + at, start + at + 2)
            for at in range(len(run) - 1)
        )
        found.append(Word(run[-1], run[-1], end - 1, end))
    return found


def is_cjk(word: str) -> bool:
    """Return whether a word is made of CJK characters."""
    found = _WORD.match(word)
    return found is not None and found[1] is not None


def normalise_run(run: str) -> str:
    """Return CJK characters in their usual form, one for one."""
    if _PLAIN_HAN.fullmatch(run):
        return run
    return "".join(_usual(character) for character in run)


def _usual(character: str) -> str:
    usual = unicodedata.normalize("NFKC", character)
    return usual if len(usual) == 1 else character


@lru_cache(maxsize=1 << 16)
def _terms(written: str) -> tuple[str, str]:
    form = _normalise(written)[:MOST_WORD]
    return (stem(form) if _ENGLISH.fullmatch(form) else form), form


def _normalise(written: str) -> str:
    """Return letters and digits without case and accents: `Ｃafé` is `cafe`."""
    if written.isascii():
        return written.lower()
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", written).casefold())
    kept = [
        character
        for character in plain
        if unicodedata.category(character)[0] in "LN"
        or (not "\u0300" <= character <= "\u036f" and unicodedata.category(character)[0] == "M")
    ]
    return unicodedata.normalize("NFC", "".join(kept))


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word; a word of one or two letters is its own."""
    # A stemmer has internal state, so threads must not share one.
    return str(EnglishStemmer().stemWord(word)) if len(word) > 2 else word


STOP_WORDS = frozenset(
    word.term
    for word in words_of(
        "a about after again all also am an and any are as at be because been before being but by "
        "can could d did do does doing don down each few for from further had has have having he "
        "her here hers him his how i if in into is it its itself just ll m me more most my myself "
        "no nor not now of off on once only or other our ours out over own please re s same shall "
        "she should so some such t than that the their theirs them then there these they this "
        "those through to too under until up us ve very was we were what when where which while "
        "who whom why will with would you your yours yourself tell told say said"
    )
)
