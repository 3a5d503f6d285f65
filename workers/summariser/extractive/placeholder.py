"""The placeholder: a deterministic summary that is shown while no model answers.

It consists of lines of the covered messages and of the previous summary, chosen by rules: the
user's requirements, steps and their results, files, and the state at the end. It says that it is a
placeholder; a real summary of the same messages replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from storage.conversations.rows import Row
from workers.conversation.markers import FRAMES
from workers.conversation.tokens import estimate_text
from workers.conversation.verbatim import user_text
from workers.redaction import redact
from workers.summariser.contract import Passage
from workers.summariser.extractive.condensing import ELLIPSIS, clip
from workers.summariser.extractive.sections import (
    HEADING,
    REQUEST,
    Room,
    Sections,
    SummaryLine,
    fitted,
    newest,
    without_least,
)
from workers.summariser.extractive.sentences import flat, span
from workers.summariser.extractive.statements import findings, statements
from workers.summariser.headings import Section
from workers.summariser.passages import passages

SMALLEST_TOKENS = estimate_text(HEADING)
"""The least size of a placeholder, even if its budget is smaller."""

# Redaction takes 400 ns a character, so the text that is read must not grow with the session.
_WORDS_TOKENS = 12_000
_STEPS_TOKENS = 8_000
_STEPS = 120

_LAST_STEPS = 4
_FILES = 12
_REQUEST_TOKENS = 100
_FEWEST_REQUEST_TOKENS = 12
_REQUEST_SHARE = 12
_CHARS_PER_TOKEN = 4


def placeholder(
    rows: Sequence[Row],
    *,
    previous: str,
    budget_tokens: int,
    max_chars: int = 8_000,
    shows_request: bool = True,
) -> str:
    """Summarise `rows`, in view order and with their messages, without a model.

    The text begins with HEADING and has the sections of a batch summary that are not empty. The
    most salient lines of `previous`, the last summary ("" for none), keep up to half of the room
    before new ones. The last request is reported once, as history, but not where the marker shows
    it anyway (`shows_request=False`), since an agent would answer it again. Of several lines that
    differ only in a sum or a date the newest stays. Secrets are redacted, text of tools is set in
    backticks.

    The result has at most `budget_tokens` and `max_chars`; where HEADING takes more, it is HEADING
    alone (`SMALLEST_TOKENS`). The same input gives the same text; without rows a placeholder is
    returned unchanged. Long sessions are read in part: of the user messages the first 45 % and the
    last 55 % of 12,000 tokens, of the steps the newest. Raises `ValueError`
    for a row without its message.
    """
    room = Room(budget_tokens, max_chars)
    words = [
        text for row in _few([row for row in rows if row.opens_turn]) if (text := user_text(row))
    ]
    earlier = _earlier(previous, is_followed=bool(rows))
    new = list(_found(words, passages(_newest([row for row in rows if not row.opens_turn]))))
    if not shows_request:
        earlier = [line for line in earlier if not line.is_request]
    elif words:
        new.insert(0, _request(words[-1], room))
    sections = Sections(_deduplicated([*map(_unframed, earlier), *map(_unframed, new)]))
    return _written_in(sections, room, earlier=frozenset(map(_unframed, earlier)))


def _written_in(sections: Sections, room: Room, earlier: frozenset[SummaryLine]) -> str:
    kept = fitted(sections, room, _written, earlier=earlier)
    # Redaction may lengthen a text.
    while kept.lines and not room.holds(redact(_written(kept))):
        kept = without_least(kept)
    return redact(_written(kept))


def _written(sections: Sections) -> str:
    """Write lines under the headings of their sections. Sections without a line are left out."""
    texts = [HEADING]
    for section in Section:
        if lines := [str(line) for line in sections.lines if line.section is section]:
            texts += [section.heading, *lines]
    return "\n".join(texts)


def _earlier(previous: str, *, is_followed: bool) -> list[SummaryLine]:
    """Read the previous summary.

    Where newer messages follow, its state becomes progress, and its last request becomes salient
    statements, like any other.
    """
    lines = Sections.of(redact(previous)).lines
    return [aged for line in lines for aged in _aged(line)] if is_followed else list(lines)


def _aged(line: SummaryLine) -> Iterator[SummaryLine]:
    if line.is_request:
        yield from statements(line.text.removeprefix(REQUEST).strip("`"))
    elif line.section is Section.STATE:
        yield replace(line, section=Section.PROGRESS)
    else:
        yield line


def _found(words: Sequence[str], steps: Sequence[Passage]) -> Iterator[SummaryLine]:
    """Yield the user's statements, the agent's steps and the files that it named.

    Of the last request only the lines that are no goal are taken; the last steps are the state.
    """
    for text in words[:-1]:
        yield from statements(text)
    for text in words[-1:]:
        yield from (line for line in statements(text) if line.section is not Section.GOAL)
    found = list(findings(steps))
    done = [line for line in found if line.section is not Section.FILES]
    yield from done[:-_LAST_STEPS]
    yield from (replace(line, section=Section.STATE) for line in done[-_LAST_STEPS:])
    yield from [line for line in found if line.section is Section.FILES][-_FILES:]


def _request(text: str, room: Room) -> SummaryLine:
    likely = int(min(room.tokens, room.chars / _CHARS_PER_TOKEN)) // _REQUEST_SHARE
    limit = max(_FEWEST_REQUEST_TOKENS, min(_REQUEST_TOKENS, likely))
    return SummaryLine.of(Section.STATE, REQUEST + span(clip(flat(text), limit)))


def _few(rows: Sequence[Row]) -> list[Row]:
    """Return all rows, or of many the first 45 % and the last 55 % of what may be read."""
    if sum(row.tokens for row in rows) <= _WORDS_TOKENS:
        return list(rows)
    early = _within(rows, _WORDS_TOKENS * 45 // 100)
    late = _within(reversed(rows[len(early) :]), _WORDS_TOKENS * 55 // 100)
    return [*early, *reversed(late)]


def _newest(rows: Sequence[Row]) -> list[Row]:
    return _within(reversed(rows[-_STEPS:]), _STEPS_TOKENS)[::-1]


def _within(rows: Iterable[Row], tokens: int) -> list[Row]:
    """Return the first of `rows`, up to the one that reaches `tokens`."""
    taken: list[Row] = []
    for row in rows:
        if tokens <= 0:
            break
        taken.append(row)
        tokens -= row.tokens
    return taken


def _unframed(line: SummaryLine) -> SummaryLine:
    """Return the line without text that could pass for the frame of a marker."""
    text = line.text
    for one in FRAMES:
        text = text.replace(one.opening, ELLIPSIS).replace(one.closing, ELLIPSIS)
    return line if text == line.text else SummaryLine.of(line.section, text)


def _deduplicated(lines: Sequence[SummaryLine]) -> tuple[SummaryLine, ...]:
    """Keep the newest of equivalent lines, and none that the request contains already."""
    request = next((line for line in reversed(lines) if line.is_request), None)
    state = {line.text for line in lines if line.section is Section.STATE}
    return newest(
        [
            line
            for line in lines
            if line is request
            or not (
                line.is_request
                or (request and line.text in request.text)
                or (line.section is Section.PROGRESS and line.text in state)
            )
        ]
    )
