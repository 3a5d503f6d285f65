"""What the summary before leaves to a placeholder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from workers.redaction import redact
from workers.summariser.extractive.condensing import JOINT
from workers.summariser.extractive.placeholder_lines import HEADING, REQUEST, Line
from workers.summariser.extractive.statements import flat, is_heading, span, statements, units
from workers.summariser.headings import Section, outline
from workers.tokens import estimate_text

_LINE_TOKENS = 100

_ITEM = re.compile(r"(?:[-*+]\s+(?:\[[ xX]\]\s+)?|(?:\d{1,7}[-–])?\d{1,7}[.)、]\s+)(?=\S)")
_COUNT = re.compile(r"… \(\+\d{1,9}\)")


def earlier_lines(previous: str, *, is_followed: bool) -> list[Line]:
    """Read the lines of a summary, redacted: a placeholder, a structured one, or any text.

    What stands under no heading is progress. Long lines and joined ones become several. Where
    newer messages follow (`is_followed`), what was the state then is progress now, and the last
    request leaves what is telling in it, like any other.
    """
    lines: list[Line] = []
    section = Section.PROGRESS
    for told in outline(redact(previous)):
        section = told.opens or section
        if told.opens is None and told.text != HEADING:
            lines.extend(_lines(section, flat(told.text)))
    return [aged for line in lines for aged in _aged(line)] if is_followed else lines


def _lines(section: Section, text: str) -> Iterator[Line]:
    item = _ITEM.match(text)
    for part in (text[item.end() :] if item else text).split(JOINT):
        line = Line.of(section, span(part) if is_heading(part) else part)
        if _COUNT.fullmatch(part):
            continue
        if line.is_request or estimate_text(part) <= _LINE_TOKENS:
            yield line
        else:
            yield from (Line.of(section, unit) for unit in units(part))


def _aged(line: Line) -> Iterator[Line]:
    if line.is_request:
        yield from statements(line.text.removeprefix(REQUEST).strip("`"))
    elif line.section is Section.STATE:
        yield replace(line, section=Section.PROGRESS)
    else:
        yield line
