"""Brings a structured summary to a size: the oldest steps pay first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from workers.summariser.extractive.condensing import Lines, clip, condensed
from workers.summariser.extractive.salience import concerns, worth
from workers.summariser.extractive.sections import Sections, steps_in
from workers.summariser.headings import Section
from workers.tokens import estimate_text

_SHARES: Mapping[Section, float] = MappingProxyType(
    {
        Section.GOAL: 0.15,
        Section.CONSTRAINTS: 0.13,
        Section.DECISIONS: 0.12,
        Section.FILES: 0.09,
        Section.QUESTIONS: 0.05,
        Section.STATE: 0.06,
    }
)
"""Of the room beside the headings, when it does not hold everything. Progress has the rest."""

# Where the steps leave room, the other sections have more than their share of it.
_WIDER = (8, 4, 2)
_OLDER_SHARE = 1 / 3
_TOPIC_SHARE = 0.65
_OFF_TOPIC = -100
_LONGEST_LINE = 60
_SHORTEST_LINE = 6
_SHORTEST_STEP = 14
_SIGN_TOKENS = 3


def fitted(older: Sections, newer: Sections, room: int, terms: frozenset[str]) -> Sections:
    """Join both in `room` tokens, or in what the headings take where that is more.

    What is worth most is kept of each section, the newer first of equals; the steps are shortened,
    joined and dropped, oldest first, of the older ones as of the newer. Lines that concern the
    topic of `terms` have 65 % of the room before others (ENGINE.md §6.4: 60 to 70 %).
    """
    whole = older.then(newer)
    for wider in (*_WIDER, 1):
        kept = _chosen(whole, room, wider, terms)
        if kept.tokens <= room:
            return kept
    return _with_fewer_steps(kept, older, newer, room, terms)


def _chosen(whole: Sections, room: int, wider: int, terms: frozenset[str]) -> Sections:
    space = max(0, room - Sections().tokens)
    lines = {
        section: _best(whole.of_section(section), int(wider * share * space), terms)
        for section, share in _SHARES.items()
    }
    lines[Section.PROGRESS] = whole.of_section(Section.PROGRESS)
    return Sections(lines, whole.dropped)


def _best(lines: Sequence[str], room: int, terms: frozenset[str]) -> tuple[str, ...]:
    if sum(map(_size, lines)) <= room:
        return tuple(lines)
    longest = max(_SHORTEST_LINE, min(_LONGEST_LINE, room - _SIGN_TOKENS))
    short = [clip(line, longest) for line in lines]

    def rank(place: int) -> tuple[int, int]:
        off_topic = bool(terms) and not concerns(lines[place], terms)
        return worth(lines[place]) + (_OFF_TOPIC if off_topic else 0), place

    kept = []
    for place in sorted(range(len(short)), key=rank, reverse=True):
        if _size(short[place]) <= room:
            room -= _size(short[place])
            kept.append(place)
    return tuple(short[place] for place in sorted(kept))


def _size(line: str) -> int:
    return estimate_text(line) + _SIGN_TOKENS


def _with_fewer_steps(
    kept: Sections, older: Sections, newer: Sections, room: int, terms: frozenset[str]
) -> Sections:
    others = {**kept.lines, Section.PROGRESS: ()}
    steps_room = room - Sections(others).tokens
    while True:
        steps = _steps_in_room(older, newer, steps_room, terms)
        whole = Sections({**others, Section.PROGRESS: steps.lines}, steps.dropped)
        excess = whole.tokens - room
        if excess <= 0 or not steps.lines:
            return whole
        steps_room -= excess


def _steps_in_room(older: Sections, newer: Sections, room: int, terms: frozenset[str]) -> Lines:
    """Steps of both, each with a fair part of the room: an update does not end the past."""
    repeated = frozenset(newer.of_section(Section.PROGRESS))
    past = [step for step in older.of_section(Section.PROGRESS) if step not in repeated]
    present = newer.steps
    fair = max(int(room * _OLDER_SHARE), room - present.tokens)
    steps = _within(past, fair, terms)
    steps += _within(present.lines, room - Lines(steps).tokens, terms)
    return Lines(steps, older.steps_in_all + newer.steps_in_all - steps_in(steps))


def _within(steps: Sequence[str], room: int, terms: frozenset[str]) -> tuple[str, ...]:
    lines = _possible(_on_topic(steps, room, terms), room)
    return condensed(Lines(tuple(lines)), room).lines


def _on_topic(steps: Sequence[str], room: int, terms: frozenset[str]) -> list[str]:
    """Drop the oldest steps off the topic, until the rest fits or they have 35 % of the room."""
    size = sum(map(estimate_text, steps))
    off = [bool(terms) and not concerns(step, terms) for step in steps]
    off_size = sum(estimate_text(step) for step, is_off in zip(steps, off, strict=True) if is_off)
    kept = []
    for step, is_off in zip(steps, off, strict=True):
        if is_off and size > room and off_size > (1 - _TOPIC_SHARE) * room:
            size -= estimate_text(step)
            off_size -= estimate_text(step)
        else:
            kept.append(step)
    return kept


def _possible(steps: Sequence[str], room: int) -> list[str]:
    """The newest steps that could fit if all were cut short: condensing takes the square of
    their number."""
    kept = []
    for step in reversed(steps):
        room -= min(estimate_text(step), _SHORTEST_STEP * steps_in((step,)))
        if room < 0:
            break
        kept.append(step)
    return kept[::-1]
