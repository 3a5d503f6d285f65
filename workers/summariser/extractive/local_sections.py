"""Structured summaries as the built-in summariser writes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby

from workers.summariser.contract import ErrorClass, Passage, SummariserError, SummaryRequest, Task
from workers.summariser.extractive.salience import terms_of
from workers.summariser.extractive.section_extracts import section_extracts
from workers.summariser.extractive.section_room import fitted
from workers.summariser.extractive.sections import Sections
from workers.summariser.extractive.steps import quoted

_SUMMARIES = ("part", "summary")


def section_texts(request: SummaryRequest) -> Iterator[str]:
    """Give texts for a BATCH or MERGE `request`, the most readable first.

    None takes more than `target_tokens`, or than the bare headings do where that is more, and all
    are smaller than what they replace. Lines in a script that nobody speaks, or that resemble
    turns, are acceptable in backticks; a bare count of steps where nothing else is, one of several
    if others stand in the input. Raises `SummariserError` with TOO_LARGE where the headings are as
    large as what they would replace.
    """
    older, newer = Sections.of(request.previous), _told_in(request)
    steps = older.steps_in_all + max(1, newer.steps_in_all)
    room = _room(request, Sections(dropped=steps).tokens)
    bare = (Sections(dropped=steps + more) for more in range(len(request.passages) + 2))
    for sections in chain(_readable(older, newer, room, terms_of(request.focus)), bare):
        if sections.tokens <= room:
            yield str(sections)


def _readable(
    older: Sections, newer: Sections, room: int, terms: frozenset[str]
) -> Iterator[Sections]:
    yield fitted(older, newer, room, terms)
    yield fitted(older.each(quoted), newer.each(quoted), room, terms)


def _room(request: SummaryRequest, least: int) -> int:
    most = request.replaced_tokens - 1
    if least > most:
        raise SummariserError(
            ErrorClass.TOO_LARGE, f"{least} tokens of headings in place of {most + 1}", requests=0
        )
    return min(max(request.target_tokens, least), most)


def _told_in(request: SummaryRequest) -> Sections:
    """What the passages tell, those that are summaries themselves in their place."""
    told = Sections()
    for is_summary, passages in groupby(request.passages, _is_summary):
        if is_summary:
            for one in passages:
                told = told.then(Sections.of(one.text))
        elif request.task is Task.BATCH:
            told = told.then(section_extracts(list(passages)))
    return told


def _is_summary(one: Passage) -> bool:
    return one.label.partition(" ")[0] in _SUMMARIES
