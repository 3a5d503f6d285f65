"""Which answers of a summariser are taken for a summary (ENGINE.md §6.6)."""

from __future__ import annotations

from collections.abc import Iterator

from workers.answer_forms import other_than_summary, unwrapped
from workers.passages import NOTE
from workers.prompts import FENCE
from workers.redaction import REDACTED, redaction
from workers.role_play import is_role_play
from workers.scripts import dominant_script
from workers.summarising import ErrorClass, Passage, SummariserError, SummaryRequest, Task
from workers.tokens import estimate_text

_SEVERAL_SECRETS = 2

# A summary may quote: what makes an echo is that most of it is long runs of the input.
_RUN_TOKENS = 50
_ECHO_TOKENS = 80
_ECHO_SHARE = 0.6


def accept(text: str, request: SummaryRequest) -> str:
    """Give the summary in `text`, cleaned and redacted, or raise what is wrong with it.

    One code fence around it and a leading "here is the summary" are taken off. Raises
    `SummariserError` with EMPTY, ERROR_PAGE, TOOL_CALL, REFUSAL, PLAN, ROLE_PLAY, SECRETS, ECHO,
    WRONG_SCRIPT or TOO_LARGE, the first that holds; no text is in the error. That a defrag must
    shrink the summary by a fifth is for the caller to check.
    """
    answer = unwrapped(text)
    wrong = other_than_summary(answer) or (ErrorClass.ROLE_PLAY if is_role_play(answer) else None)
    if wrong is not None:
        raise SummariserError(wrong)
    summary = _redacted(answer)
    _check_against(summary, request)
    return summary


def _check_against(summary: str, request: SummaryRequest) -> None:
    if _is_echo(summary, request):
        raise SummariserError(ErrorClass.ECHO)
    script, expected = dominant_script(summary), _expected_scripts(request)
    if script and expected and script not in expected:
        wanted = ", ".join(sorted(expected))
        raise SummariserError(ErrorClass.WRONG_SCRIPT, f"{script} where {wanted} is spoken")
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


def _is_echo(summary: str, request: SummaryRequest) -> bool:
    if FENCE.search(summary):
        return True
    if request.task is Task.DEFRAG:
        return False
    if _flat(summary) == _flat(request.previous):
        return True
    new = " ".join(_new_lines(summary, request.previous))
    sources = [_flat(_spoken(one)) for one in request.passages] + [_flat(request.question)]
    if any(new == source for source in sources if source):
        return True
    verbatim = sum(_long_runs(new, "\n".join(sources)))
    return verbatim >= max(_ECHO_TOKENS, _ECHO_SHARE * estimate_text(new))


def _new_lines(summary: str, previous: str) -> list[str]:
    """The lines of `summary` that the previous one did not have: keeping those is its task."""
    known = {_flat(line) for line in previous.splitlines()}
    return [flat for line in summary.splitlines() if (flat := _flat(line)) and flat not in known]


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


def _expected_scripts(request: SummaryRequest) -> set[str]:
    """The scripts that people and agent used: in all, by the user alone, in the last summary."""
    said = [one.text for one in request.passages if one.label in ("user", "assistant")]
    by_user = [one.text for one in request.passages if one.label == "user"]
    found = (
        dominant_script(_plain([request.question, request.previous, *said])),
        dominant_script(_plain([request.question, *by_user]), min_weight=12),
        dominant_script(_plain([request.previous])),
    )
    return {script for script in found if script}


def _plain(texts: list[str]) -> str:
    return NOTE.sub(" ", "\n".join(texts))


def _spoken(one: Passage) -> str:
    return "\n".join([one.text, *(arguments for _, arguments in one.calls)])


def _flat(text: str) -> str:
    return " ".join(text.split())
