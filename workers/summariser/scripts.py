"""Recognition of the script that a text is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from workers.summariser.contract import SummaryRequest, Task
from workers.summariser.headings import body
from workers.summariser.passages import NOTE


class Script(StrEnum):
    """The scripts that are distinguished; all others count as none."""

    LATIN = "Latin"
    CYRILLIC = "Cyrillic"
    GREEK = "Greek"
    HEBREW = "Hebrew"
    ARABIC = "Arabic"
    DEVANAGARI = "Devanagari"
    THAI = "Thai"
    HAN = "Chinese"
    KANA = "Japanese"
    HANGUL = "Korean"


_LETTERS = {
    Script.LATIN: "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff",
    Script.CYRILLIC: "\u0400-\u052f",
    Script.GREEK: "\u0370-\u03ff\u1f00-\u1fff",
    Script.HEBREW: "\u0590-\u05ff",
    Script.ARABIC: "\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    Script.DEVANAGARI: "\u0900-\u097f",
    Script.THAI: "\u0e00-\u0e7f",
    Script.HAN: "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    Script.KANA: "\u3041-\u3096\u30a1-\u30fa\u30fc",
    Script.HANGUL: "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
}
_RUNS = {script: re.compile(f"[{letters}]+") for script, letters in _LETTERS.items()}

# A Chinese or Korean character carries as much as two or three Latin letters.
_WEIGHTS = {Script.HAN: 3, Script.KANA: 2, Script.HANGUL: 2}

_JAPANESE_SHARE = 0.1

_QUOTED_MATTER = re.compile(
    r"```.*?(?:```|\Z)"
    r"|`[^`\n]*+`"
    r"|\"[A-Za-z0-9 _.\-]*+\"\s*+:"
    r"|[A-Za-z0-9_.:/\\@\-]+",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z.:\-]+")


def letter_weights(text: str) -> dict[Script, int]:
    """Count the letters of each script in `text`, dense scripts weighted.

    Code in backticks, URLs, paths, ids and JSON keys are left out: they are Latin in every
    language. Han letters beside some Kana count as Japanese.
    """
    prose = _QUOTED_MATTER.sub(_words_only, text)
    if prose.isascii():
        latin = sum(map(len, _RUNS[Script.LATIN].findall(prose)))
        return {Script.LATIN: latin} if latin else {}
    weights = {
        script: _WEIGHTS.get(script, 1) * sum(map(len, run.findall(prose)))
        for script, run in _RUNS.items()
    }
    if weights[Script.KANA] > _JAPANESE_SHARE * (weights[Script.KANA] + weights[Script.HAN]):
        weights[Script.KANA] += weights.pop(Script.HAN)
    return {script: weight for script, weight in weights.items() if weight}


def dominant_script(text: str, *, min_weight: int = 24, share: float = 0.6) -> Script | None:
    """Return the script of at least `share` of the letters of `text`.

    None where no script does, or where there are fewer than `min_weight` letters to judge by.
    """
    weights = letter_weights(text)
    total = sum(weights.values())
    if total < min_weight:
        return None
    script = max(weights, key=lambda candidate: weights[candidate])
    return script if weights[script] >= share * total else None


def _words_only(matter: re.Match[str]) -> str:
    return matter[0] if _WORD.fullmatch(matter[0]) else " "


_DIALOGUE = ("assistant", "summary")

# A user who changes languages may be answered in either.
_SHARE_OF_ONE = 0.3
_FEWEST_LETTERS = 12


def user_script(request: SummaryRequest) -> Script | None:
    """Return the script that the user writes in, else that of the dialogue; None where unclear."""
    by_user = dominant_script(_by_user(request), min_weight=8)
    return by_user or dominant_script(_dialogue(request)) or dominant_script(_previous(request))


def accepted_scripts(request: SummaryRequest) -> frozenset[Script]:
    """Return the scripts that a summary may be written in.

    Those are the scripts of the whole dialogue, of the user alone, and of the previous summary.
    Empty where there are too few letters to judge by.
    """
    return frozenset(_accepted(request))


def is_accepted(script: Script, request: SummaryRequest) -> bool:
    """Return whether `script` is one of `accepted_scripts`, or there are none.

    Reads no further than necessary: the whole dialogue is the longest text.
    """
    others = False
    for accepted in _accepted(request):
        if accepted is script:
            return True
        others = True
    return not others


def _accepted(request: SummaryRequest) -> Iterator[Script]:
    by_user, previous = _by_user(request), _previous(request)
    if request.task.in_sections:
        yield from _all_of_user(by_user)
    for script in (
        dominant_script(by_user, min_weight=_FEWEST_LETTERS),
        dominant_script(previous),
    ):
        if script:
            yield script
    script = dominant_script("\n".join((by_user, _dialogue(request), previous)))
    if script:
        yield script


def _all_of_user(by_user: str) -> set[Script]:
    weights = letter_weights(by_user)
    total = sum(weights.values())
    if total < _FEWEST_LETTERS:
        return set()
    return {script for script, weight in weights.items() if weight >= _SHARE_OF_ONE * total}


def _by_user(request: SummaryRequest) -> str:
    texts = (one.text for one in request.passages if one.label == "user")
    return _plain((request.question, *texts))


def _dialogue(request: SummaryRequest) -> str:
    if request.task is Task.MERGE:
        return _plain(body(one.text) for one in request.passages)
    return _plain(one.text for one in request.passages if one.label in _DIALOGUE)


def _previous(request: SummaryRequest) -> str:
    return _plain((body(request.previous),))


def _plain(texts: Iterable[str]) -> str:
    return NOTE.sub(" ", "\n".join(texts))
