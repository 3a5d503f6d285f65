"""The deterministic summary that stands in while no model answers.

It holds lines of the covered messages and of the summary before, chosen by rules: what the user
laid down, what was done and with which result, which files, where things stood. It is a makeshift
and says so; a real summary of the same messages replaces it.
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
    Line,
    Room,
    Sections,
    fitted,
    newest,
    without_least,
)
from workers.summariser.extractive.sentences import flat, span
from workers.summariser.extractive.statements import findings, statements
from workers.summariser.headings import Section
from workers.summariser.passages import passages

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
    `previous`, the summary before ("" for none), keeps its most salient lines, up to half of the
    room whatever is new. The last request is told once, as history, and not at all where the
    marker shows it anyway (`shows_request=False`): an agent would answer it again. Of several lines
    that differ only in a sum or a date the newest stays. Secrets are redacted, words of tools
    stand in backticks.

    The result has at most `budget_tokens` and `max_chars`; where those are less than HEADING
    takes, it is HEADING alone (`SMALLEST_TOKENS`). The same input gives the same text; without
    rows a placeholder comes back as it is. Long sessions are read in part: of the user messages
    the first 45 % and the last 55 % of 12,000 tokens, of the steps the newest. Raises `ValueError`
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
    told = Sections(_deduplicated([*map(_unframed, earlier), *map(_unframed, new)]))
    return _written_in(told, room, earlier=frozenset(map(_unframed, earlier)))


def _written_in(told: Sections, room: Room, earlier: frozenset[Line]) -> str:
    kept = fitted(told, room, _written, earlier=earlier)
    # Redaction may lengthen a text.
    while kept.lines and not room.holds(redact(_written(kept))):
        kept = without_least(kept)
    return redact(_written(kept))


def _written(told: Sections) -> str:
    """Write lines under the headings of their sections. Sections without a line are left out."""
    texts = [HEADING]
    for section in Section:
        if lines := [str(line) for line in told.lines if line.section is section]:
            texts += [section.heading, *lines]
    return "\n".join(texts)


def _earlier(previous: str, *, is_followed: bool) -> list[Line]:
    """Read the summary before. Where newer messages follow, what was the state then is progress
    now, and the last request leaves what is salient in it, like any other."""
    lines = Sections.of(redact(previous)).lines
    return [aged for line in lines for aged in _aged(line)] if is_followed else list(lines)


def _aged(line: Line) -> Iterator[Line]:
    if line.is_request:
        yield from statements(line.text.removeprefix(REQUEST).strip("`"))
    elif line.section is Section.STATE:
        yield replace(line, section=Section.PROGRESS)
    else:
        yield line


def _found(words: Sequence[str], steps: Sequence[Passage]) -> Iterator[Line]:
    """Yield the user's statements, of the last request only what binds, and what the agent did: its
    steps, of which the last are the state, and the files it named."""
    for text in words[:-1]:
        yield from statements(text)
    for text in words[-1:]:
        yield from (line for line in statements(text) if line.section is not Section.GOAL)
    found = list(findings(steps))
    done = [line for line in found if line.section is not Section.FILES]
    yield from done[:-_LAST_STEPS]
    yield from (replace(line, section=Section.STATE) for line in done[-_LAST_STEPS:])
    yield from [line for line in found if line.section is Section.FILES][-_FILES:]


def _request(text: str, room: Room) -> Line:
    likely = int(min(room.tokens, room.chars / _CHARS_PER_TOKEN)) // _REQUEST_SHARE
    limit = max(_FEWEST_REQUEST_TOKENS, min(_REQUEST_TOKENS, likely))
    return Line.of(Section.STATE, REQUEST + span(clip(flat(text), limit)))


def _few(rows: Sequence[Row]) -> list[Row]:
    """Return all rows, or where they are long the first 45 % and the last 55 % of what may be
    read."""
    if sum(row.tokens for row in rows) <= _WORDS_TOKENS:
        return list(rows)
    early = _within(rows, _WORDS_TOKENS * 45 // 100)
    late = _within(reversed(rows[len(early) :]), _WORDS_TOKENS * 55 // 100)
    return [*early, *reversed(late)]


def _newest(rows: Sequence[Row]) -> list[Row]:
    return _within(reversed(rows[-_STEPS:]), _STEPS_TOKENS)[::-1]


def _within(rows: Iterable[Row], tokens: int) -> list[Row]:
    """Return the first of `rows`, up to the one that makes `tokens` full."""
    taken: list[Row] = []
    for row in rows:
        if tokens <= 0:
            break
        taken.append(row)
        tokens -= row.tokens
    return taken


def _unframed(line: Line) -> Line:
    """Return a line that cannot be taken for the frame of a marker."""
    text = line.text
    for one in FRAMES:
        text = text.replace(one.opening, ELLIPSIS).replace(one.closing, ELLIPSIS)
    return line if text == line.text else Line.of(line.section, text)


def _deduplicated(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Keep the newest of lines that say the same, and nothing that the request holds already."""
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
