"""English stems, after M. F. Porter's algorithm of 1980, so that `compacted` finds `compaction`.

Made here and not by the databases, because both must have the very same words in their indexes.
"""

from __future__ import annotations

import re
from functools import lru_cache

_VOWEL = "[aeiou]|(?<=[^aeiou])y"
_RUN = re.compile(f"(?:{_VOWEL})+")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")
_SHORT_END = re.compile(f"(?:^|[^aeiou])(?:{_VOWEL})[^aeiouwxy]$")

_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3 = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
_STEP_4 = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous"),
    *("ive", "ize", "ion", "al", "er", "ic", "ou"),
)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a lower-case English word; a word of one or two letters is its own."""
    if len(word) <= 2:
        return word
    for step in (_plural, _past, _final_y, _suffix_2, _suffix_3, _suffix_4, _tidy):
        word = step(word)
    return word


def _measure(stem_: str) -> int:
    """How many times a run of vowels is followed by a consonant."""
    runs = list(_RUN.finditer(stem_))
    return sum(run.end() < len(stem_) for run in runs)


def _plural(word: str) -> str:
    if word.endswith("sses") or word.endswith("ies"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and _RUN.search(word[: -len(ending)]):
            return _whole_again(word[: -len(ending)])
    return word


def _whole_again(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return f"{word}e"
    if _DOUBLE.search(word):
        return word[:-1]
    if _measure(word) == 1 and _SHORT_END.search(word):
        return f"{word}e"
    return word


def _final_y(word: str) -> str:
    return f"{word[:-1]}i" if word.endswith("y") and _RUN.search(word[:-1]) else word


def _suffix_2(word: str) -> str:
    return _replaced(word, _STEP_2)


def _suffix_3(word: str) -> str:
    return _replaced(word, _STEP_3)


def _replaced(word: str, endings: dict[str, str]) -> str:
    for length in range(min(7, len(word) - 1), 1, -1):
        new = endings.get(word[-length:])
        if new is not None:
            return word[:-length] + new if _measure(word[:-length]) > 0 else word
    return word


def _suffix_4(word: str) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            fits = _measure(rest) > 1 and (ending != "ion" or rest.endswith(("s", "t")))
            return rest if fits else word
    return word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _SHORT_END.search(rest)):
            word = rest
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word
