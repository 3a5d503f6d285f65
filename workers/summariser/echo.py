"""Answers that repeat what they were made from."""

from __future__ import annotations

from collections.abc import Iterator

from workers.summariser.contract import Passage, SummaryRequest, Task
from workers.summariser.headings import body
from workers.summariser.prompt_fence import FENCE
from workers.tokens import estimate_text

# A summary may quote: what makes an echo is that most of it is long runs of the input.
_RUN_TOKENS = 50
_ECHO_TOKENS = 80
_ECHO_SHARE = 0.6


def is_echo(summary: str, request: SummaryRequest) -> bool:
    """True when `summary` is its own prompt, the previous summary or mostly the messages.

    A defrag may leave the summary as it is; that it must shrink is for the caller to check. A
    merge is made of long runs of its parts, but it is not one of them.
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
    sources = [_flat(_spoken(one)) for one in request.passages] + [_flat(request.question)]
    if any(new == source for source in sources if source):
        return True
    verbatim = sum(_long_runs(new, "\n".join(sources)))
    return verbatim >= max(_ECHO_TOKENS, _ECHO_SHARE * estimate_text(new))


def _is_one_of_several(summary: str, request: SummaryRequest) -> bool:
    parts = {_flat(one.text) for one in request.passages}
    return len(parts) > 1 and _flat(summary) in parts


def _new_lines(summary: str, request: SummaryRequest) -> list[str]:
    """The lines of `summary` that the previous one did not have: keeping those is its task."""
    known = {_flat(line) for line in request.previous.splitlines()}
    told = body(summary) if request.task.in_sections else summary
    return [flat for line in told.splitlines() if (flat := _flat(line)) and flat not in known]


def _long_runs(text: str, source: str) -> Iterator[int]:
    """The sizes in tokens of the long runs of `text` that stand in `source` word for word.

    Linear time: a run is followed from the first place in `source` that one of its slices has.
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


def _spoken(one: Passage) -> str:
    return "\n".join([one.text, *(arguments for _, arguments in one.calls)])


def _flat(text: str) -> str:
    return " ".join(text.split())
