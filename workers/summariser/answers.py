"""Which answers of a summariser are taken for a summary (ENGINE.md §6.6)."""

from __future__ import annotations

from workers.redaction import REDACTED, redaction
from workers.summariser.answer_forms import other_than_summary, unwrapped
from workers.summariser.contract import ErrorClass, SummariserError, SummaryRequest
from workers.summariser.echo import is_echo
from workers.summariser.headings import body, missing_headings
from workers.summariser.role_play import is_role_play, passes_order_on
from workers.summariser.scripts import dominant_script
from workers.summariser.section_forms import in_sections, other_than_sections
from workers.summariser.spoken import is_spoken, scripts_spoken
from workers.tokens import estimate_text

_SEVERAL_SECRETS = 2
_FOREIGN = ("tool", "runtime")
"""How labels of passages begin whose words neither the user nor the agent chose."""


def accept(text: str, request: SummaryRequest) -> str:
    """Give the summary in `text`, cleaned and redacted, or raise what is wrong with it.

    One code fence around it and a leading "here is the summary" are taken off; the headings of a
    structured summary come in the form that is stored. Raises `SummariserError` with EMPTY,
    ERROR_PAGE, TOOL_CALL, REFUSAL, PLAN, ROLE_PLAY, SECRETS, ECHO, WRONG_SCRIPT, MISSING_SECTIONS
    or TOO_LARGE, the first that holds; no text is in the error. That a defrag must shrink the
    summary by a fifth is for the caller to check.
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
    if script and not is_spoken(script, request):
        wanted = ", ".join(sorted(scripts_spoken(request)))
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
