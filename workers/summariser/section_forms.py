"""What an answer in sections can be instead of a summary, and the form that it is stored in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from workers.summariser.answer_forms import other_than_summary
from workers.summariser.contract import ErrorClass
from workers.summariser.headings import missing_headings, outline

_ANNOUNCEMENT_CHARS = 300
_ITEM = re.compile(r"(?:[-*+•>]+\s+|\d{1,4}(?:[-–]\d{1,4})?[.)、]\s+|[*_]{1,3})*+")


def in_sections(answer: str) -> str:
    """Write `answer` with its headings in the form that is stored.

    A short title or announcement before the first of all seven is taken off.
    """
    lines = list(outline(answer))
    first = next((place for place, line in enumerate(lines) if line.opens), 0)
    opening = "\n".join(line.text for line in lines[:first])
    if _is_announcement(opening) and not missing_headings(answer):
        lines = lines[first:]
    return "\n".join(line.text for line in lines).strip()


def other_than_sections(answer: str) -> ErrorClass | None:
    """Say what `answer` is by its form, or None where it may be a structured summary.

    Under the headings it is what most of those sections are that tell something. One alone may
    open with "I can't access my account": a goal in the user's words.
    """
    wrong = other_than_summary(answer)
    if wrong is not None or missing_headings(answer):
        return wrong
    forms = [other_than_summary(text) for text in _section_texts(answer)]
    told = Counter(form for form in forms if form is not ErrorClass.EMPTY)
    if not told:
        return ErrorClass.EMPTY
    form, count = told.most_common(1)[0]
    return form if 2 * count > told.total() else None


def _is_announcement(opening: str) -> bool:
    return len(opening) <= _ANNOUNCEMENT_CHARS and other_than_summary(opening) in (
        None,
        ErrorClass.EMPTY,
        ErrorClass.PLAN,
    )


def _section_texts(answer: str) -> Iterator[str]:
    text: list[str] = []
    for line in outline(answer):
        if line.opens is None:
            text.append(line.text)
        else:
            yield _without_item("\n".join(text))
            text = []
    yield _without_item("\n".join(text))


def _without_item(text: str) -> str:
    stripped = text.strip()
    item = _ITEM.match(stripped)
    return stripped[item.end() :] if item else stripped
