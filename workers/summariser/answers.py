"""Checks that an answer must pass before it is stored as a summary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from workers.conversation.tokens import estimate_text
from workers.redaction import REDACTED, redaction
from workers.summariser.answer_forms import other_than_summary, unwrapped
from workers.summariser.contract import ErrorClass, Passage, SummariserError, SummaryRequest, Task
from workers.summariser.headings import body, missing_headings, outline
from workers.summariser.passages import FENCE
from workers.summariser.role_play import is_role_play, passes_order_on
from workers.summariser.scripts import accepted_scripts, dominant_script, is_accepted

_SEVERAL_SECRETS = 2
_FOREIGN = ("tool", "runtime")
"""First words of the labels of passages that neither the user nor the agent wrote."""


def accept(text: str, request: SummaryRequest) -> str:
    """Return the summary in `text`, cleaned and redacted.

    One code fence around it and a leading "here is the summary" are removed; the headings of a
    structured summary are written in the stored form. Raises `SummariserError` with EMPTY,
    ERROR_PAGE, TOOL_CALL, REFUSAL, PLAN, ROLE_PLAY, SECRETS, ECHO, WRONG_SCRIPT, MISSING_SECTIONS
    or TOO_LARGE, the first that applies; the error contains no text. The caller checks that a
    defrag shrinks the summary by a fifth.
    """
    answer = unwrapped(text)
    if request.task.in_sections:
        answer = in_sections(answer)
        wrong = other_than_sections(answer)
    else:
        wrong = other_than_summary(answer)
    if wrong is None and is_role_play(answer):
        wrong = ErrorClass.ROLE_PLAY
    if wrong is not None:
        raise SummariserError(wrong)
    summary = _redacted(answer)
    _check_against(summary, request)
    return summary


def _check_against(summary: str, request: SummaryRequest) -> None:
    if is_echo(summary, request):
        raise SummariserError(ErrorClass.ECHO)
    foreign = (one.text for one in request.passages if one.label.startswith(_FOREIGN))
    if passes_order_on(summary, foreign):
        raise SummariserError(ErrorClass.ROLE_PLAY, "an order in a tool's words")
    structured = request.task.in_sections
    script = dominant_script(body(summary) if structured else summary)
    if script and not is_accepted(script, request):
        wanted = ", ".join(sorted(accepted_scripts(request)))
        raise SummariserError(ErrorClass.WRONG_SCRIPT, f"{script} where {wanted} is spoken")
    if structured and (missing := missing_headings(summary)):
        raise SummariserError(ErrorClass.MISSING_SECTIONS, f"without {', '.join(missing)}")
    tokens = estimate_text(summary)
    if tokens >= request.replaced_tokens:
        raise SummariserError(
            ErrorClass.TOO_LARGE, f"{tokens} tokens in place of {request.replaced_tokens}"
        )


def _redacted(answer: str) -> str:
    clean = redaction(answer)
    left = len(clean.text.replace(REDACTED, ""))
    if clean.secrets >= _SEVERAL_SECRETS or 2 * left < len(answer):
        raise SummariserError(ErrorClass.SECRETS, f"{clean.secrets} secrets")
    return clean.text


_ANNOUNCEMENT_CHARS = 300
_ITEM = re.compile(r"(?:[-*+•>]+\s+|\d{1,4}(?:[-–]\d{1,4})?[.)、]\s+|[*_]{1,3})*+")


def in_sections(answer: str) -> str:
    """Return `answer` with its headings in the stored form.

    A short title or announcement before the first of all seven is removed.
    """
    lines = list(outline(answer))
    first = next((place for place, line in enumerate(lines) if line.opens), 0)
    opening = "\n".join(line.text for line in lines[:first])
    if _is_announcement(opening) and not missing_headings(answer):
        lines = lines[first:]
    return "\n".join(line.text for line in lines).strip()


def other_than_sections(answer: str) -> ErrorClass | None:
    """Return the class of `answer` by its form, or None where it may be a structured summary.

    Under the headings, the class of most of the sections that have content decides. A single one
    may open with "I can't access my account": a goal in the user's words.
    """
    wrong = other_than_summary(answer)
    if wrong is not None or missing_headings(answer):
        return wrong
    forms = [other_than_summary(text) for text in _section_texts(answer)]
    counts = Counter(form for form in forms if form is not ErrorClass.EMPTY)
    if not counts:
        return ErrorClass.EMPTY
    form, count = counts.most_common(1)[0]
    return form if 2 * count > counts.total() else None


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


# A summary may quote; it is an echo if most of it consists of long runs of the input.
_RUN_TOKENS = 50
_ECHO_TOKENS = 80
_ECHO_SHARE = 0.6


def is_echo(summary: str, request: SummaryRequest) -> bool:
    """Return whether `summary` is its own prompt, the previous summary or mostly the messages.

    A defrag may leave the summary as it is; the caller checks that it shrinks. A merge consists of
    long runs of its parts, but must not be one of them.
    """
    if FENCE.search(summary):
        return True
    if request.task is Task.DEFRAG:
        return False
    if _flat(summary) == _flat(request.previous):
        return True
    if request.task is Task.MERGE:
        return _is_one_of_several(summary, request)
    new = " ".join(_new_lines(summary, request))
    sources = [_flat(_whole(one)) for one in request.passages] + [_flat(request.question)]
    if any(new == source for source in sources if source):
        return True
    verbatim = sum(_long_runs(new, "\n".join(sources)))
    return verbatim >= max(_ECHO_TOKENS, _ECHO_SHARE * estimate_text(new))


def _is_one_of_several(summary: str, request: SummaryRequest) -> bool:
    parts = {_flat(one.text) for one in request.passages}
    return len(parts) > 1 and _flat(summary) in parts


def _new_lines(summary: str, request: SummaryRequest) -> list[str]:
    """Return the lines of `summary` that the previous one did not have.

    Keeping the others is the task of an update.
    """
    known = {_flat(line) for line in request.previous.splitlines()}
    content = body(summary) if request.task.in_sections else summary
    return [flat for line in content.splitlines() if (flat := _flat(line)) and flat not in known]


def _long_runs(text: str, source: str) -> Iterator[int]:
    """Yield the sizes in tokens of the long runs of `text` that occur in `source` word for word.

    Linear time: a run is followed from the first occurrence in `source` of one of its slices.
    """
    size = 40 if text.isascii() else 20
    start = 0
    while start + size <= len(text):
        place = source.find(text[start : start + size])
        end = start + size
        if place >= 0:
            ahead = place + size
            while end < len(text) and ahead < len(source) and text[end] == source[ahead]:
                end, ahead = end + 1, ahead + 1
            tokens = estimate_text(text[start:end])
            if tokens >= _RUN_TOKENS:
                yield tokens
        start = end


def _whole(one: Passage) -> str:
    return "\n".join([one.text, *(arguments for _, arguments in one.calls)])


def _flat(text: str) -> str:
    return " ".join(text.split())
