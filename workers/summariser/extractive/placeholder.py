"""The deterministic summary that stands in while no model answers (ENGINE.md §10).

It holds lines of the covered messages and of the summary before, chosen by rules: what the user
laid down, what was done and what came of it, which files, where things stood. It is a makeshift
and says so; a real summary of the same messages replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from storage.rows import Row
from workers.conversation.verbatim import said
from workers.marker import FRAMES
from workers.redaction import redact
from workers.summariser.contract import Passage
from workers.summariser.extractive.condensing import ELLIPSIS, clip
from workers.summariser.extractive.placeholder_choice import Room, fitted
from workers.summariser.extractive.placeholder_earlier import earlier_lines
from workers.summariser.extractive.placeholder_lines import HEADING, REQUEST, Line
from workers.summariser.extractive.statements import flat, plain, span, statements
from workers.summariser.extractive.steps import SAID, extracts
from workers.summariser.headings import Section
from workers.summariser.passages import passages
from workers.tokens import estimate_text

SMALLEST_TOKENS = estimate_text(HEADING)
"""What a placeholder takes at the least, whatever its budget."""

# Redacting takes 400 ns a character, so what is read must not grow with the session.
_WORDS_TOKENS = 12_000
_STEPS_TOKENS = 8_000
_STEPS = 120

_LAST_STEPS = 4
_FILES = 12
_REQUEST_TOKENS = 100
_FEWEST_REQUEST_TOKENS = 12
_REQUEST_SHARE = 12
_CHARS_PER_TOKEN = 4

_STATED = frozenset({Section.GOAL, Section.CONSTRAINTS, Section.DECISIONS, Section.QUESTIONS})
_UPDATED = re.compile(r"[$€£¥]\s?\d[\d.,]*|\d{4}-\d{2}-\d{2}")
_PATH = re.compile(
    r"https?://[^\s\"'`<>\\)\],]++"
    r"|(?<![\w.@+/-])(?:~|\.{1,2})?/(?:[\w.@+-]++/)*[\w.@+-]++"
    r"|(?<![\w.@+/-])(?:[\w.@+-]++/)+[\w@+.-]*\.[A-Za-z]\w{0,7}\b"
)


def placeholder(
    rows: Sequence[Row],
    *,
    previous: str,
    budget_tokens: int,
    max_chars: int = 8_000,
    shows_request: bool = True,
) -> str:
    """Summarise `rows`, in view order and with their messages, without a model.

    The text begins with HEADING and has the sections of a batch summary, those that have a line.
    `previous`, the summary before ("" for none), keeps its most telling lines, up to half of the
    room whatever is new. The last request is told once, as history, and not at all where the
    marker shows it anyway (`shows_request=False`; faults F114). Of several lines that differ only
    in a sum or a date the newest stays. Secrets are redacted, words of tools stand in backticks.

    The result has at most `budget_tokens` and `max_chars`; where those are less than HEADING
    takes, it is HEADING alone (`SMALLEST_TOKENS`). The same input gives the same text; without
    rows a placeholder comes back as it is. Long sessions are read in part: of the user messages
    the first 45 % and the last 55 % of 12,000 tokens (as in ENGINE.md §6.3), of the steps the
    newest. Raises `ValueError` for a row without its message.
    """
    room = Room(budget_tokens, max_chars)
    words = [text for row in _few([row for row in rows if row.opens_turn]) if (text := said(row))]
    new = [*_stated(words), *_done(rows)]
    earlier = [_unframed(line) for line in earlier_lines(previous, is_followed=bool(rows))]
    if not shows_request:
        earlier = [line for line in earlier if not line.is_request]
    elif words:
        new.insert(0, _request(words[-1], room))
    lines = _told_once([*earlier, *map(_unframed, new)])
    return fitted(lines, frozenset(earlier), room)


def _stated(words: Sequence[str]) -> Iterator[Line]:
    """What the user laid down. Of the last request only what binds: the ask is told once."""
    for text in words[:-1]:
        yield from statements(text)
    for text in words[-1:]:
        yield from (line for line in statements(text) if line.section is not Section.GOAL)


def _done(rows: Sequence[Row]) -> Iterator[Line]:
    """What the agent did: its steps, of which the last are the state, and the files it named."""
    steps = passages(_newest([row for row in rows if not row.opens_turn]))
    told = [Line.of(Section.PROGRESS, _step(text)) for text in extracts(steps)]
    yield from told[:-_LAST_STEPS]
    yield from (replace(line, section=Section.STATE) for line in told[-_LAST_STEPS:])
    yield from _files(steps)


def _step(text: str) -> str:
    clean = redact(text)
    return f"{SAID} {plain(clean)}" if clean.startswith(SAID) else clean


def _request(text: str, room: Room) -> Line:
    likely = int(min(room.tokens, room.chars / _CHARS_PER_TOKEN)) // _REQUEST_SHARE
    limit = max(_FEWEST_REQUEST_TOKENS, min(_REQUEST_TOKENS, likely))
    return Line.of(Section.STATE, REQUEST + span(clip(flat(text), limit)))


def _files(steps: Sequence[Passage]) -> Iterator[Line]:
    """The files and addresses that were worked on, as the calls name them; the newest twelve."""
    newest_first = dict.fromkeys(
        path
        for one in reversed(steps)
        for _, arguments in reversed(one.calls)
        for path in reversed(_PATH.findall(arguments))
    )
    for path in reversed(list(newest_first)[:_FILES]):
        yield Line.of(Section.FILES, span(path))


def _few(rows: Sequence[Row]) -> list[Row]:
    """All rows, or where they are long the first 45 % and the last 55 % of what may be read."""
    if sum(row.tokens for row in rows) <= _WORDS_TOKENS:
        return list(rows)
    early = _within(rows, _WORDS_TOKENS * 45 // 100)
    late = _within(reversed(rows[len(early) :]), _WORDS_TOKENS * 55 // 100)
    return [*early, *reversed(late)]


def _newest(rows: Sequence[Row]) -> list[Row]:
    return _within(reversed(rows[-_STEPS:]), _STEPS_TOKENS)[::-1]


def _within(rows: Iterable[Row], tokens: int) -> list[Row]:
    """The first of `rows`, up to the one that makes `tokens` full."""
    taken: list[Row] = []
    for row in rows:
        if tokens <= 0:
            break
        taken.append(row)
        tokens -= row.tokens
    return taken


def _unframed(line: Line) -> Line:
    """A line that cannot be taken for the frame of a marker."""
    text = line.text
    for one in FRAMES:
        text = text.replace(one.opening, ELLIPSIS).replace(one.closing, ELLIPSIS)
    return line if text == line.text else Line.of(line.section, text)


def _told_once(lines: Sequence[Line]) -> list[Line]:
    """Of lines that tell the same the newest, and nothing beside the request that is in it."""
    request = next((line for line in reversed(lines) if line.is_request), None)
    newest: dict[str, Line] = {}
    for line in reversed(lines):
        is_new = line is request or not (line.is_request or (request and line.text in request.text))
        if is_new and any(map(str.isalnum, line.text)):
            newest.setdefault(_sameness(line), line)
    return list(reversed(newest.values()))


def _sameness(line: Line) -> str:
    """What two lines have in common that tell the same: of statements all but sums and dates."""
    return _UPDATED.sub("#", line.text) if line.section in _STATED else line.text
