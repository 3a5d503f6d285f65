"""What the endpoint's ways to fail mean to a compaction job.

Every function returns the error to raise. An endpoint's own message is read here and goes no
further: it may quote the conversation or the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from workers.summarising import ErrorClass, SummariserError

MAX_RETRY_AFTER = 86_400.0
"""Seconds. A longer wait is a configuration to repair, not a wait."""

_STATUSES = {
    401: ErrorClass.AUTH,
    402: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    404: ErrorClass.NOT_FOUND,
    405: ErrorClass.NOT_FOUND,
    408: ErrorClass.SERVER_ERROR,
    409: ErrorClass.SERVER_ERROR,
    410: ErrorClass.NOT_FOUND,
    413: ErrorClass.CONTEXT_OVERFLOW,
    425: ErrorClass.SERVER_ERROR,
    429: ErrorClass.RATE_LIMITED,
}
_MAY_MEAN_OVERFLOW = frozenset({400, 413, 422, 500})

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|model_max_prompt_tokens_exceeded"
    r"|maximum (context|model|prompt|input) length"
    r"|maximum number of (input )?tokens"
    r"|(exceed|larger|longer|greater|more|beyond|full|overflow)[^.]{0,60}context"
    r"|context (length|window|size|limit)[^.]{0,40}(exceed|overflow|full|reached|too)"
    r"|(prompt|input|request|messages?|conversation) (is|are|was) too (long|large)"
    r"|(prompt|input|context) too (long|large)|too many (input |prompt )?tokens"
    r"|exceeds? (the )?(max(imum)? )?(token|input|prompt)s? (limit|length)"
    r"|(input|prompt) (length|token count)[^.]{0,60}(exceed|should be|must be|limit)"
    r"|reduce the length of the (messages|prompt|input)"
    r"|上下文[^。]{0,20}(超|过长)|(输入|提示词?|prompt)[^。]{0,20}(超长|过长|超过|超出)",
    re.IGNORECASE,
)
# Only words: a digit or a dash might make it a key or a piece of somebody's text.
_CODE = re.compile(r"[A-Za-z_]{3,48}")


def status_error(
    status: int, body: object, headers: Mapping[str, str], now: float
) -> SummariserError:
    """The error for an HTTP status that is no success.

    `body` is the decoded error object, or its text; `headers` have lower-case names or ignore
    case; `now` is the wall clock, for a Retry-After date without a Date beside it.
    """
    detail = " ".join(filter(None, [f"HTTP {status}", _code(body)]))
    if status in _MAY_MEAN_OVERFLOW and _OVERFLOW.search(_words(body)):
        return SummariserError(ErrorClass.CONTEXT_OVERFLOW, detail)
    default = ErrorClass.SERVER_ERROR if status >= 500 else ErrorClass.BAD_REQUEST
    error_class = _STATUSES.get(status, default)
    waits = error_class in {ErrorClass.RATE_LIMITED, ErrorClass.SERVER_ERROR}
    return SummariserError(
        error_class, detail, retry_after=retry_after(headers, now) if waits else None
    )


def reported_error(body: object) -> SummariserError:
    """The error for an error object that came with, or after, HTTP status 200."""
    detail = " ".join(filter(None, ["error object in the answer", _code(body)]))
    if _OVERFLOW.search(_words(body)):
        return SummariserError(ErrorClass.CONTEXT_OVERFLOW, detail)
    limited = isinstance(body, Mapping) and str(body.get("code")) == "429"
    return SummariserError(ErrorClass.RATE_LIMITED if limited else ErrorClass.SERVER_ERROR, detail)


def transport_error(error: BaseException, host: str, *, answering: bool) -> SummariserError:
    """The error for a connection that failed; `answering` says that an answer had begun."""
    error_class = ErrorClass.INTERRUPTED if answering else ErrorClass.CONNECTION
    return SummariserError(error_class, f"{type(error.__cause__ or error).__name__} at {host}")


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the endpoint asks to wait: retry-after-ms, or Retry-After as seconds or date.

    None where it asks nothing that can be read. A date is taken relative to the endpoint's own
    Date, so that clocks need not agree.
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


def _words(body: object) -> str:
    """The endpoint's own words in an error object, and none of a request quoted in it."""
    if isinstance(body, str):
        return body[:4_000]
    if not isinstance(body, Mapping):
        return ""
    metadata = body.get("metadata")
    upstream = metadata.get("raw") if isinstance(metadata, Mapping) else None
    values = [*(body.get(key) for key in ("code", "type", "message", "detail")), upstream]
    return "\n".join(value[:4_000] for value in values if isinstance(value, str))


def _code(body: object) -> str:
    if not isinstance(body, Mapping):
        return ""
    values = (body.get("code"), body.get("type"))
    codes = (v for v in values if isinstance(v, str) and _CODE.fullmatch(v))
    return next(codes, "")
