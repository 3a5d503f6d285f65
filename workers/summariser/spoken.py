"""Which scripts people and agent use in what is to be summarised (faults F231)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workers.summariser.contract import SummaryRequest, Task
from workers.summariser.headings import body
from workers.summariser.passages import NOTE
from workers.summariser.scripts import Script, dominant_script, letter_weights

_SPOKEN_TO_USER = ("assistant", "summary")

# Who changes languages on the way may be answered in either.
_SHARE_OF_ONE = 0.3
_FEWEST_LETTERS = 12


def user_script(request: SummaryRequest) -> Script | None:
    """Name the script that the user writes in, or else the one that is spoken around; None where
    that cannot be told."""
    by_user = dominant_script(_by_user(request), min_weight=8)
    return by_user or dominant_script(_said(request)) or dominant_script(_previous(request))


def scripts_spoken(request: SummaryRequest) -> frozenset[Script]:
    """Name the scripts that a summary may be written in: what is spoken in all, by the user alone,
    and in the previous summary. Empty where there are too few letters to judge by."""
    return frozenset(_spoken(request))


def is_spoken(script: Script, request: SummaryRequest) -> bool:
    """Whether `script` is one of `scripts_spoken`, or there are none. Reads no further than it has
    to: all that is said is by far the longest text."""
    others = False
    for spoken in _spoken(request):
        if spoken is script:
            return True
        others = True
    return not others


def _spoken(request: SummaryRequest) -> Iterator[Script]:
    by_user, previous = _by_user(request), _previous(request)
    if request.task.in_sections:
        yield from _all_of_user(by_user)
    for script in (
        dominant_script(by_user, min_weight=_FEWEST_LETTERS),
        dominant_script(previous),
    ):
        if script:
            yield script
    script = dominant_script("\n".join((by_user, _said(request), previous)))
    if script:
        yield script


def _all_of_user(by_user: str) -> set[Script]:
    weights = letter_weights(by_user)
    total = sum(weights.values())
    if total < _FEWEST_LETTERS:
        return set()
    return {script for script, weight in weights.items() if weight >= _SHARE_OF_ONE * total}


def _by_user(request: SummaryRequest) -> str:
    said = (one.text for one in request.passages if one.label == "user")
    return _plain((request.question, *said))


def _said(request: SummaryRequest) -> str:
    if request.task is Task.MERGE:
        return _plain(body(one.text) for one in request.passages)
    return _plain(one.text for one in request.passages if one.label in _SPOKEN_TO_USER)


def _previous(request: SummaryRequest) -> str:
    return _plain((body(request.previous),))


def _plain(texts: Iterable[str]) -> str:
    return NOTE.sub(" ", "\n".join(texts))
