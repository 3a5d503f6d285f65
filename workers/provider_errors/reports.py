"""Status, code and text of an error, in any shape in which it reaches a gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice
from typing import NamedTuple

from workers.provider_errors.wordings import (
    MAX_CHARS,
    is_context_overflow,
    is_payload_too_large,
    is_throttling,
)

_MAX_DEPTH = 10
_MAX_ITEMS = 40
_MAX_JSON_CHARS = 1_000_000

_STATUS_KEYS = ("status_code", "http_status", "status", "httpstatuscode")
_CODE_KEYS = frozenset({"code", "type", "error_code", "err_code"})
_TEXT_KEYS = frozenset(
    {"message", "msg", "detail", "details", "error", "errors", "title", "description", "reason"}
    | {"error_msg", "error_message", "errormessage", "errmsg", "error_description", "status_msg"}
    | {"cause", "metadata", "raw", "body", "base_resp", "innererror", "responsemetadata"}
)
_COUNT_KEYS = frozenset({"n_ctx", "n_prompt_tokens"})
_EMPTY_CODES = frozenset({"", "error", "none", "null"})

# Matches a field that is named, not explained.
_PATH = re.compile(r"[\w.$\[\]'-]*", re.ASCII)
_JSON_START = re.compile(r"[\[{]\s{0,20}[\"{\[]")
_STATUS_IN_TEXT = re.compile(
    r"\s{0,9}(?:[\w.]{1,60}:? ){0,3}(?:error code|http|status(?: code)?|api error)[:= ]{1,2}"
    r"([45]\d\d)\b|\s{0,9}([45]\d\d)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error as a provider's API reported it: HTTP status, symbolic code or type, text.

    `message` may quote the conversation: it is for recognition only, never for a log.
    """

    status: int | None
    code: str | None
    message: str = field(repr=False)


def read_error(error: object) -> ErrorReport:
    """Read an error as its client raised it, or as plain fields. Never fails.

    Of an exception, status, code, message and body are read as `openai`, `anthropic` and others
    name them, and those of its causes as long as none has a status. Of a mapping, any of `status`
    or `status_code`, `code`, `type`, `message`, `error`, `body`. Error objects nested in either,
    also as JSON inside strings, are read too; fields in which providers send the request back are
    not. A text is a message; anything else becomes an empty report.
    """
    facts = list(islice(_facts(error, 0), 200))
    message = " | ".join(_unique(str(fact.value) for fact in facts if fact.kind is _Kind.WORDS))
    codes = _unique(str(fact.value) for fact in facts if fact.kind is _Kind.CODE)
    statuses = (fact.value for fact in facts if fact.kind is _Kind.STATUS)
    status = next((value for value in statuses if isinstance(value, int)), None)
    return ErrorReport(
        status=_status_in(message) if status is None else status,
        code=_most_specific(codes),
        message=message[:MAX_CHARS],
    )


class _Kind(Enum):
    STATUS = "status"
    CODE = "code"
    WORDS = "words"


class _Fact(NamedTuple):
    kind: _Kind
    value: int | str


def _facts(value: object, depth: int) -> Iterator[_Fact]:
    if depth > _MAX_DEPTH:
        return
    match value:
        case BaseException():
            yield from _exception_facts(value, depth)
        case str():
            yield from _text_facts(value, depth)
        case bytes() | bytearray():
            yield from _text_facts(bytes(value[:_MAX_JSON_CHARS]).decode("utf-8", "replace"), depth)
        case Mapping():
            yield from _mapping_facts(value, depth)
        case Sequence():
            for item in islice(value, _MAX_ITEMS):
                yield from _facts(item, depth + 1)


def _exception_facts(error: BaseException, depth: int) -> Iterator[_Fact]:
    """Yield an exception's own facts, then those of its causes unless it had a status itself."""
    own = list(_attributes(error, depth))
    yield from own
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and not any(fact.kind is _Kind.STATUS for fact in own):
        yield from _facts(cause, depth + 1)


def _attributes(error: BaseException, depth: int) -> Iterator[_Fact]:
    response = getattr(error, "response", None)
    for source in (error, response):
        for key in _STATUS_KEYS:
            yield from _status(getattr(source, key, None))
    for key in ("code", "type"):
        yield from _code(getattr(error, key, None))
    # A client repeats the body in its message, at times with the request that it quotes.
    reported = [*_facts(getattr(error, "body", None), depth + 1)]
    if isinstance(response, Mapping):
        reported += _facts(response, depth + 1)
    yield from reported
    if not any(fact.kind is _Kind.WORDS for fact in reported):
        message = getattr(error, "message", None)
        yield from _text_facts(
            message if isinstance(message, str) and message else str(error), depth
        )


def _mapping_facts(fields: Mapping[object, object], depth: int) -> Iterator[_Fact]:
    for name, value in islice(fields.items(), _MAX_ITEMS):
        key = str(name).lower()
        if key in _STATUS_KEYS:
            yield from _status(value)
        elif key in _CODE_KEYS:
            yield from _code(value)
        elif key in _COUNT_KEYS and isinstance(value, int):
            yield _Fact(_Kind.WORDS, f"{key}: {value}")
        elif key in _TEXT_KEYS:
            yield from _facts(value, depth + 1)
        elif key == "param" and isinstance(value, str) and not _PATH.fullmatch(value[:200]):
            yield from _text_facts(value, depth)


def _status(value: object) -> Iterator[_Fact]:
    if isinstance(value, str) and not value.strip().isdecimal():
        yield from _code(value)
    elif isinstance(value, int | str) and len(str(value)) <= 9 and 100 <= int(value) <= 599:
        yield _Fact(_Kind.STATUS, int(value))


def _code(value: object) -> Iterator[_Fact]:
    if not isinstance(value, str | int) or isinstance(value, bool):
        return
    code = str(value)[:200].strip()
    if code.isdecimal() and 400 <= int(code) <= 599:
        yield _Fact(_Kind.STATUS, int(code))
    elif code.lower() not in _EMPTY_CODES:
        yield _Fact(_Kind.CODE, code)


def _text_facts(text: str, depth: int) -> Iterator[_Fact]:
    """Yield the facts of a text, and of an error object that it holds as JSON, if any."""
    start = _JSON_START.search(text[:MAX_CHARS])
    if start is None or len(text) > _MAX_JSON_CHARS:
        yield from _words(text)
        return
    try:
        nested, end = json.JSONDecoder().raw_decode(text, start.start())
    except (ValueError, RecursionError):
        yield from _words(text)
        return
    yield from _words(text[: start.start()])
    yield from _facts(nested, depth + 1)
    yield from _words(text[end:])


def _words(text: str) -> Iterator[_Fact]:
    words = text[:MAX_CHARS].strip()
    if words:
        yield _Fact(_Kind.WORDS, words)


def _most_specific(codes: Sequence[str]) -> str | None:
    """Return the most specific code: one for a size or a rate, else any symbol, else a number."""
    symbols = [code for code in codes if not code.isdecimal()]
    known = (is_context_overflow, is_payload_too_large, is_throttling)
    specific = (code for code in symbols if any(is_one(code) for is_one in known))
    return next(chain(specific, symbols, codes), None)


def _status_in(message: str) -> int | None:
    match = _STATUS_IN_TEXT.match(message)
    return int(match[1] or match[2]) if match else None


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
