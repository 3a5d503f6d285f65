"""Summarise the output of a tool in a few facts: size, exit code, error.

An error keeps its message, even if that is in the middle of the output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.prune.notes import counted, one_line, quoted

ERROR_CHARS = 600
"""Characters that are kept of an error's message."""

_BEGIN_CHARS = 80
_LINES = 3
_HEAD = 400
_BEFORE = 100
_LOOKS = 40
"""Most lines that are checked for each error word."""
_ENDS = 4_000
"""Characters at the beginning and at the end of a text in which an exit code is searched."""
_JSON_CHARS = 2_000_000

_STEMS = (
    "error",
    "exception",
    "traceback",
    "fail",
    "fatal",
    "denied",
    "no such",
    "not found",
    "refused",
    "timed out",
    "panic",
    "cannot",
    "unable",
    "错误",
    "失败",
    "异常",
    "ошибка",
)
_TROUBLE = re.compile(
    r"(?:\b(?:\w*(?:error|exception)\b(?!\.\w|s?\s*[:=]\s*0\b)|traceback|fail(?:ed|ure|s)?\b|fatal"
    r"|denied|no such|not found|refused|timed out|panic(?:ked)?\b|cannot\b|unable)"
    r"|错误|失败|异常|ошибка)",
    re.IGNORECASE,
)
_PLAIN_STEMS = ("error:", "exception:", "fatal:", "panic:", "traceback (most")
_PLAIN_TROUBLE = re.compile(
    r"(?:[\w.]*(?:error|exception)|fatal|panic):\s|Traceback \(most recent", re.IGNORECASE
)
"""An error if a line begins with it, even in a file that was read."""
_NO_TROUBLE = re.compile(r"\b(?:0|no|without)\s+(?:errors?|fail(?:ures?|ed))\b", re.IGNORECASE)
_FAILED_AT_ONCE = re.compile(
    r"\W{0,3}(?:\w*error\b|\w*exception\b|traceback|fatal\b|fail(?:ed|ure)\b|panic\b|denied\b"
    r"|错误|失败|异常|ошибка)",
    re.IGNORECASE,
)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_EXIT_STEMS = ("exit", "return", "退出码")
_EXIT = re.compile(
    r"(?:exit(?:ed)?|return(?:ed)?)[ _-]*(?:with)?[ _-]*(?:code|status)?[\s:=]{0,3}(-?\d{1,5})\b"
    r"|退出码\D{0,3}(\d{1,5})",
    re.IGNORECASE,
)
_EXIT_FIELDS = ("exit_code", "exitCode", "returncode", "return_code", "exit_status")
_TEXT_FIELDS = ("output", "stdout", "content", "result", "text", "body", "data")
_COUNT_FIELDS = ("total_count", "count", "total", "matches", "results", "files", "items")


@dataclass(frozen=True, slots=True)
class Findings:
    """The facts about an output. `error` is its error message, "" if there is none."""

    characters: int
    lines: int
    facts: tuple[str, ...] = ()
    error: str = ""

    def in_words(self, *, begins: str = "") -> str:
        """Return the facts in words. `begins` is the output if its first words are to be quoted."""
        parts = [counted(self.lines, "line"), counted(self.characters, "character"), *self.facts]
        words = ", ".join(parts)
        if self.error:
            return f"{words}; error: {quoted(self.error, ERROR_CHARS)}"
        return f"{words}; begins {quoted(begins, _BEGIN_CHARS)}" if begins.strip() else words


def findings(texts: Sequence[str], *, logs: bool, failed: bool = False) -> Findings:
    """Return the facts about the output of a tool, given part by part. `logs` says that any line
    may report an error, `failed` that the row marks the output as one."""
    found = [_findings(text, logs=logs, failed=failed) for text in texts]
    if len(found) == 1:
        return found[0]
    return Findings(
        characters=sum(one.characters for one in found),
        lines=sum(one.lines for one in found),
        facts=tuple(dict.fromkeys(fact for one in found for fact in one.facts)),
        error=" | ".join(one.error for one in found if one.error),
    )


def _findings(text: str, *, logs: bool, failed: bool) -> Findings:
    fields = _object(text)
    if fields is not None:
        return _of_object(text, fields, logs=logs, failed=failed)
    code = _exit_code(text)
    facts = () if code is None else (f"exit code {code}",)
    wrong = failed or _FAILED_AT_ONCE.match(text) is not None
    error = ""
    error = _message(text) if wrong else trouble(text, logs=logs or code not in (None, 0))
    return Findings(len(text), _lines(text), facts, error)


def trouble(text: str, *, logs: bool = True) -> str:
    """Return the first lines that report an error, "" if none does. Of a Python traceback that is
    the line that names the exception. In a text that is not a log, only lines that begin with an
    error count."""
    low = text.lower()
    if len(low) != len(text):
        low = text
    stems, reports = (_STEMS, _reports) if logs else (_PLAIN_STEMS, _is_error)
    starts = sorted({start for stem in stems for start in _error_lines(text, low, stem, reports)})
    found: list[str] = []
    for start in starts[:_LINES]:
        line = _line_at(text, start)
        if _TRACEBACK.search(line):
            line = _raised(text, start) or line
        found.append(_error_piece(line).strip())
    return " | ".join(dict.fromkeys(found))


def reports_trouble(text: str) -> bool:
    """Return whether an output begins by saying that something went wrong."""
    return _reports(text[:_HEAD])


def _error_lines(text: str, low: str, stem: str, reports: Callable[[str], bool]) -> Iterator[int]:
    """Yield the start of the first lines that contain the word and report an error by it."""
    at, found = low.find(stem), 0
    for _ in range(_LOOKS):
        if at < 0 or found == _LINES:
            return
        start = text.rfind("\n", 0, at) + 1
        line = _line_at(text, start)
        # A line of a minified file is not a message.
        near = line if len(line) <= _ENDS else line[max(0, at - start - _BEFORE) :][:_ENDS]
        if reports(near):
            found += 1
            yield start
        at = low.find(stem, start + len(line))


def _reports(piece: str) -> bool:
    return _TROUBLE.search(piece) is not None and _NO_TROUBLE.search(piece) is None


def _error_piece(line: str) -> str:
    """Return a line, cut to what surrounds the error word if it is too long."""
    if len(line) <= ERROR_CHARS:
        return line
    at = _TROUBLE.search(line)
    start = max(0, at.start() - _BEFORE) if at is not None else 0
    return line[start : start + ERROR_CHARS // 2]


def _is_error(line: str) -> bool:
    return _PLAIN_TROUBLE.match(line) is not None


def _line_at(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)]


def _raised(text: str, start: int) -> str:
    """Return the line that names the exception: the first after the frames."""
    at = text.find("\n", start) + 1
    while 0 < at < len(text):
        line = _line_at(text, at)
        if line.strip() and not line[0].isspace():
            return line.strip()
        at += len(line) + 1
    return ""


def _message(text: str) -> str:
    """Return the message of an output that is an error as a whole."""
    if len(text) <= ERROR_CHARS:
        return text
    return trouble(text) or one_line(text, ERROR_CHARS)


def _object(text: str) -> Mapping[str, Any] | None:
    if text[:1] != "{" or len(text) > _JSON_CHARS:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def _of_object(text: str, fields: Mapping[str, Any], *, logs: bool, failed: bool) -> Findings:
    inner = max(
        (value for name in _TEXT_FIELDS if isinstance(value := fields.get(name), str)),
        key=len,
        default="",
    )
    code = next((fields[name] for name in _EXIT_FIELDS if type(fields.get(name)) is int), None)
    facts = [] if code is None else [f"exit code {code}"]
    status = fields.get("status")
    if isinstance(status, str) and status:
        facts.append(f"status {one_line(status, 40)}")
    facts += [
        f"{name} {len(value) if isinstance(value, list) else value}"
        for name in _COUNT_FIELDS
        if type(value := fields.get(name)) in (int, list)
    ]
    error = _stated_error(fields, failed=failed or code not in (None, 0))
    if not error and failed:
        error = _message(inner or text)
    if not error:
        error = trouble(inner, logs=logs or code not in (None, 0))
    return Findings(len(text), _lines(inner) if inner else _lines(text), tuple(facts), error)


def _stated_error(fields: Mapping[str, Any], *, failed: bool) -> str:
    wrong = failed or fields.get("success") is False or fields.get("ok") is False
    names = ("error", "errors", "stderr", "message", "detail") if wrong else ("error", "errors")
    for name in names:
        value = fields.get(name)
        if isinstance(value, Mapping):
            value = value.get("message") or value.get("detail") or json.dumps(value)
        if isinstance(value, list) and value:
            value = json.dumps(value, ensure_ascii=False)
        if isinstance(value, str) and value.strip():
            return _message(value)
    return ""


def _exit_code(text: str) -> int | None:
    """Return the last exit code near the end of a text, else near its beginning."""
    for piece in (text[-_ENDS:], text[:_ENDS] if len(text) > _ENDS else ""):
        low = piece.lower()
        at = max((low.rfind(stem) for stem in _EXIT_STEMS), default=-1)
        for _ in range(_LOOKS):
            if at < 0:
                break
            found = _EXIT.match(piece, at)
            if found is not None:
                return int(found[1] or found[2])
            at = max(low.rfind(stem, 0, at) for stem in _EXIT_STEMS)
    return None


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))
