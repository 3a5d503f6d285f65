"""Errors of a model's API that mean that a session must shrink.

The gateway handles everything else: refused parameters and tool arguments, corrupt transcripts,
rate limits, quotas and keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workers.provider_errors.figures import StatedFigures, figures, output_cap, over_allowance
from workers.provider_errors.reports import ErrorReport, read_error
from workers.provider_errors.wordings import (
    is_context_overflow,
    is_long_context_refusal,
    is_output_too_large,
    is_payload_too_large,
    is_throttling,
    own_words,
)

__all__ = [
    "ApiError",
    "ApiErrorKind",
    "ErrorReport",
    "read_error",
    "recognise",
    "recognise_error",
]

_PAYLOAD_TOO_LARGE = 413
_RATE_LIMITED = 429
_MAY_BE_LONG_CONTEXT = frozenset({None, 400, 429})
_MAY_BE_SIZE = frozenset({None, 400, 422})


class ApiErrorKind(StrEnum):
    """The part of a request that is too large, or too much for the account."""

    PAYLOAD_TOO_LARGE = "payload_too_large"
    LONG_CONTEXT_RATE_LIMIT = "long_context_rate_limit"
    OUTPUT_TOO_LARGE = "output_too_large"
    CONTEXT_OVERFLOW = "context_overflow"


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error that a smaller session solves, with the provider's figures in tokens.

    `stated_limit` is the window, if the provider named it; `stated_tokens` the prompt as it
    counted it, or the whole request where it named no parts; `output_room` the largest output that
    it would grant. A figure is None where it was not stated or makes no sense.
    """

    kind: ApiErrorKind
    stated_limit: int | None = None
    stated_tokens: int | None = None
    output_room: int | None = None

    @property
    def smaller_prompt_helps(self) -> bool:
        """Whether a smaller prompt helps: not where the output exceeds the model's maximum."""
        return self.kind is not ApiErrorKind.OUTPUT_TOO_LARGE or self.stated_limit is not None


def recognise_error(error: object) -> ApiError | None:
    """Recognise an error in any shape that `read_error` reads; None for every other error."""
    report = read_error(error)
    return recognise(status=report.status, code=report.code, message=report.message)


def recognise(*, status: int | None, code: str | None, message: str) -> ApiError | None:
    """Recognise what a provider answered; None unless it is one of the four kinds.

    `status` is the HTTP status, None where there was none, as in the middle of a stream. Reads the
    first `MAX_CHARS` characters of `message`, in time linear in them.
    """
    status = status if status is not None and status >= 400 else _http_status(code)
    text = own_words(f"{code or ''} | {message}")
    if status in _MAY_BE_LONG_CONTEXT and is_long_context_refusal(text):
        return ApiError(ApiErrorKind.LONG_CONTEXT_RATE_LIMIT)
    if status == _PAYLOAD_TOO_LARGE:
        return _payload(text)
    if status in (None, _RATE_LIMITED) and over_allowance(text):
        return _payload(text)
    if (status not in _MAY_BE_SIZE and (status or 0) < 500) or is_throttling(text):
        return None
    return _payload(text) if is_payload_too_large(text) else _size(text)


def _http_status(code: str | None) -> int | None:
    written = str(code or "")
    is_status = len(written) == 3 and written.isdecimal() and 400 <= int(written) <= 599
    return int(written) if is_status else None


def _payload(text: str) -> ApiError:
    """Return the error of a payload that is too large.

    Only a window is kept as a limit: others count bytes, messages or tokens per minute.
    """
    kind = ApiErrorKind.PAYLOAD_TOO_LARGE
    if allowance := over_allowance(text):
        return ApiError(kind, stated_tokens=allowance[1])
    if is_context_overflow(text):
        found = figures(text)
        return ApiError(kind, found.limit, _counted(found))
    return ApiError(kind)


def _size(text: str) -> ApiError | None:
    overflow, output = is_context_overflow(text), is_output_too_large(text)
    if not (overflow or output):
        return None
    found = figures(text)
    if _output_is_at_fault(found):
        return ApiError(
            ApiErrorKind.OUTPUT_TOO_LARGE, found.limit, _counted(found), _room_left(found)
        )
    cap = output_cap(text)
    if not _complete(found) and (cap is not None or not overflow):
        return ApiError(ApiErrorKind.OUTPUT_TOO_LARGE, output_room=cap)
    return ApiError(ApiErrorKind.CONTEXT_OVERFLOW, found.limit, _counted(found))


def _complete(found: StatedFigures) -> bool:
    return None not in (found.limit, found.prompt, found.output)


def _output_is_at_fault(found: StatedFigures) -> bool:
    """Return whether the prompt alone fits the window, or the output alone does not.

    Where the prompt was counted only in part, the larger share decides.
    """
    if found.limit is None or found.output is None:
        return False
    if found.output >= found.limit and (found.prompt is None or found.prompt < found.limit):
        return True
    if found.prompt is None:
        return False
    if found.at_least:
        return found.prompt < found.output
    return found.prompt < found.limit


def _room_left(found: StatedFigures) -> int | None:
    """Return the tokens that the window has left, less than what was refused."""
    if found.limit is None or found.prompt is None or found.output is None or found.at_least:
        return None
    return max(min(found.limit - found.prompt, found.output - 1), 0) or None


def _counted(found: StatedFigures) -> int | None:
    if found.at_least:
        return None
    return found.prompt if found.prompt is not None else found.total
