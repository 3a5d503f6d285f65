"""Failures of an endpoint, as the errors that a compaction job handles.

An endpoint's own message is read here and not passed on: it may quote the conversation or the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from workers.provider_errors.errors import ApiErrorKind, read_error, recognise
from workers.summariser.contract import ErrorClass, SummariserError

MAX_RETRY_AFTER = 86_400.0
"""Seconds. A longer wait is an error of the configuration."""

_STATUSES = {
    401: ErrorClass.AUTH,
    402: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    404: ErrorClass.NOT_FOUND,
    405: ErrorClass.NOT_FOUND,
    408: ErrorClass.SERVER_ERROR,
    409: ErrorClass.SERVER_ERROR,
    410: ErrorClass.NOT_FOUND,
    425: ErrorClass.SERVER_ERROR,
    429: ErrorClass.RATE_LIMITED,
}
# Only words: text with a digit or a dash might be a key or part of a conversation.
_CODE = re.compile(r"[A-Za-z_]{3,48}")


def status_error(
    status: int, body: object, headers: Mapping[str, str], now: float
) -> SummariserError:
    """Return the error for an HTTP status other than success.

    `body` is the decoded error object, or its text; `headers` have lower-case names or ignore
    case; `now` is the wall clock, for a Retry-After date without a Date beside it.
    """
    detail = " ".join(filter(None, [f"HTTP {status}", _code(body)]))
    if status != 429 and _is_too_long(status, body):
        return SummariserError(ErrorClass.CONTEXT_OVERFLOW, detail)
    default = ErrorClass.SERVER_ERROR if status >= 500 else ErrorClass.BAD_REQUEST
    error_class = _STATUSES.get(status, default)
    waits = error_class in {ErrorClass.RATE_LIMITED, ErrorClass.SERVER_ERROR}
    return SummariserError(
        error_class, detail, retry_after=retry_after(headers, now) if waits else None
    )


def reported_error(body: object) -> SummariserError:
    """Return the error for an error object sent with, or after, HTTP status 200."""
    detail = " ".join(filter(None, ["error object in the answer", _code(body)]))
    limited = isinstance(body, Mapping) and str(body.get("code")) == "429"
    if not limited and _is_too_long(None, body):
        return SummariserError(ErrorClass.CONTEXT_OVERFLOW, detail)
    return SummariserError(ErrorClass.RATE_LIMITED if limited else ErrorClass.SERVER_ERROR, detail)


def transport_error(error: BaseException, host: str, *, answering: bool) -> SummariserError:
    """Return the error for a connection that failed; `answering` says that an answer had begun."""
    error_class = ErrorClass.INTERRUPTED if answering else ErrorClass.CONNECTION
    return SummariserError(error_class, f"{type(error.__cause__ or error).__name__} at {host}")


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the endpoint requests to wait, None without a readable request.

    Reads retry-after-ms, or Retry-After as seconds or date. A date is taken relative to the
    endpoint's own Date, so that clocks need not agree.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    stated = headers.get("retry-after")
    seconds = _number(stated)
    if seconds is not None:
        return _bounded(seconds)
    until = _timestamp(stated)
    if until is None:
        return None
    sent = _timestamp(headers.get("date"))
    return _bounded(until - (now if sent is None else sent))


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _timestamp(text: str | None) -> float | None:
    try:
        moment = parsedate_to_datetime(text or "")
        return _utc(moment).timestamp()
    except (ValueError, OverflowError):
        return None


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_too_long(status: int | None, body: object) -> bool:
    """Return whether a smaller request might be answered."""
    report = read_error(body)
    error = recognise(
        status=report.status if status is None else status,
        code=report.code,
        message=report.message,
    )
    # A summariser's request is never that long: the account refuses all of them.
    refused = ApiErrorKind.LONG_CONTEXT_RATE_LIMIT
    return error is not None and error.kind is not refused and error.smaller_prompt_helps


def _code(body: object) -> str:
    if not isinstance(body, Mapping):
        return ""
    values = (body.get("code"), body.get("type"))
    codes = (v for v in values if isinstance(v, str) and _CODE.fullmatch(v))
    return next(codes, "")
