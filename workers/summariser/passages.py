"""The messages of an exchange as a summariser sees them: redacted, cut, labelled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from storage.conversations.rows import Message, Origin, Row
from workers.redaction import redact, redact_value
from workers.summariser.contract import Passage

MESSAGE_CHARS = 6_000
"""Longest text of one message; of a longer one the first 4,000 and last 1,500 are kept."""

MARK_CHARS = 12
"""Length of the mark that delimits the passages of one prompt; see `shown`."""

IMAGE_NOTE = "⟦image, not shown here⟧"
TRUNCATED_NOTE = "⟦input truncated: {left_out:,} characters are not shown here⟧"
NOTE = re.compile(r"⟦[^⟦⟧\n]*⟧")
"""Matches the notes that replace omitted text. Conversations hardly ever contain such brackets, so
notes are distinguished from content, and copies of them are noticed."""

_CUT_NOTE = "⟦cut: {left_out:,} characters are not shown here⟧"

_REASONING_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALL_PARTS = frozenset({"tool_use", "function_call"})
_NAME = re.compile(r"[^\w.:/\-]+")

# Redacting ten megabytes of which 5,500 characters are kept would take seconds. A secret is
# shorter than the rest of these windows.
_WINDOW = 65_536

_ANY_MARK = "-" * MARK_CHARS
_NAME_CHARS = 64
_NAME_WINDOW = 4_096

_FEWEST_CHARS_OF_A_CUT = 200


def passage(row: Row, *, tool: str | None = None) -> Passage:
    """Turn a message row into a passage.

    Text and arguments are redacted and each cut to 6,000 characters, with a visible note where
    something is missing; several calls share that room. Image parts become a note, reasoning is
    left out. The label is `user`, `assistant`, `tool NAME` or `runtime` (written by neither a
    person nor the agent); `tool` names the tool where the message itself does not. Raises
    `ValueError` for a row without its message.
    """
    if row.message is None:
        raise ValueError(f"row {row.position} was read without its message")
    text = "\n".join(filter(None, _texts(row.message.get("content"))))
    calls = list(_calls(row.message))
    room = max(MESSAGE_CHARS // max(1, len(calls)), _FEWEST_CHARS_OF_A_CUT)
    return Passage(
        label=_label(row, tool),
        text=_cut_redacted(text, MESSAGE_CHARS),
        calls=tuple((_one_word(name), _arguments(given, room)) for name, given in calls),
    )


def passages(rows: Iterable[Row]) -> tuple[Passage, ...]:
    """Turn message rows in view order into passages.

    A result that does not name its tool takes the name from the newest call before it with the
    same id (ids recur within a session).
    """
    names: dict[str, str] = {}
    made = []
    for row in rows:
        tool = next((names[answer] for answer in row.answers if answer in names), None)
        one = passage(row, tool=tool)
        names.update(zip(row.calls, (name for name, _ in one.calls), strict=False))
        made.append(one)
    return tuple(made)


def shown(given: Sequence[Passage], mark: str) -> str:
    """Write passages as a prompt contains them, each under a line that only `mark` can form."""
    return "\n".join(f"[{mark}] {one.label}\n{_body(one)}" for one in given)


def passages_size(given: Sequence[Passage], *, behind: int = 0) -> int:
    """Count the characters of `given` in a prompt, after `behind` characters of earlier ones."""
    sizes = [len(shown((one,), _ANY_MARK)) for one in given]
    between = max(0, len(sizes) - (not behind))
    return behind + sum(sizes) + between


def fit(given: Sequence[Passage], limit_chars: int) -> tuple[Passage, ...]:
    """Cut passages to `limit_chars` as the prompt contains them.

    What fits is returned unchanged. Otherwise the first 45 % stay, then a note says "input
    truncated", then follow the last 55 %. A passage on either border is cut, unless less than 200
    characters of it would be left. Raises `ValueError` when not even the note fits.
    """
    size = passages_size(given)
    if size <= limit_chars:
        return tuple(given)
    note = Passage("runtime", TRUNCATED_NOTE.format(left_out=size))
    room = limit_chars - passages_size((note,)) - 2
    if room < 0:
        raise ValueError(f"{limit_chars} characters cannot hold any passage")
    first = _leading(given, room * 45 // 100)
    last = _trailing(given, room - room * 45 // 100)
    left_out = size - passages_size(first) - passages_size(last)
    return (*first, replace(note, text=TRUNCATED_NOTE.format(left_out=left_out)), *last)


def _leading(given: Sequence[Passage], room: int) -> list[Passage]:
    kept: list[Passage] = []
    for one in given:
        size = passages_size((one,)) + 1
        if size > room:
            left = len(_body(one)) - (size - room)
            if left >= _FEWEST_CHARS_OF_A_CUT:
                kept.append(Passage(one.label, _body(one)[:left]))
            break
        kept.append(one)
        room -= size
    return kept


def _trailing(given: Sequence[Passage], room: int) -> list[Passage]:
    kept: list[Passage] = []
    for one in reversed(given):
        size = passages_size((one,)) + 1
        if size > room:
            left = len(_body(one)) - (size - room)
            if left >= _FEWEST_CHARS_OF_A_CUT:
                kept.append(Passage(one.label, _body(one)[-left:]))
            break
        kept.append(one)
        room -= size
    return kept[::-1]


def _body(one: Passage) -> str:
    calls = (f"calls {name}: {arguments}" for name, arguments in one.calls)
    return "\n".join(filter(None, (one.text, *calls)))


def _label(row: Row, tool: str | None) -> str:
    if row.role == "assistant":
        return "assistant"
    if row.role in ("tool", "function") or row.origin is Origin.TOOL:
        name = row.message.get("name") if row.message else None
        return f"tool {_one_word(name or tool or '')}".rstrip()
    if row.role == "user" and row.origin is not Origin.RUNTIME:
        return "user"
    return "runtime"


def _one_word(name: Any) -> str:
    """Return a tool's name as one short word, since a heading must not contain free text.

    Agents call tools that do not exist, whole commands with their keys among them.
    """
    return _NAME.sub("_", redact(str(name)[:_NAME_WINDOW]))[:_NAME_CHARS]


def _texts(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | tuple):
        for part in content:
            yield from _texts(part)
    elif isinstance(content, Mapping):
        yield from _part_texts(content)


def _part_texts(part: Mapping[str, Any]) -> Iterable[str]:
    kind = str(part.get("type", ""))
    if kind in _REASONING_PARTS or kind in _CALL_PARTS:
        return
    if "image" in kind:
        yield IMAGE_NOTE
    elif isinstance(part.get("text"), str):
        yield part["text"]
    elif isinstance(part.get("refusal"), str):
        yield part["refusal"]
    elif (inner := part.get("content", part.get("output"))) is not None:
        yield from _texts(inner)
    else:
        yield f"⟦{_one_word(kind) or 'part'}, not shown here⟧"


def _calls(message: Message) -> Iterable[tuple[str, Any]]:
    for call in message.get("tool_calls") or ():
        made = call.get("function") or call.get("custom") or {}
        yield made.get("name", ""), made.get("arguments", made.get("input", ""))
    content = message.get("content")
    for part in content if isinstance(content, list | tuple) else ():
        if isinstance(part, Mapping) and part.get("type") in _CALL_PARTS:
            yield part.get("name", ""), part.get("input", part.get("arguments", ""))


def _arguments(given: Any, room: int) -> str:
    """Return the arguments as compact JSON.

    In text that is not JSON, or too large to parse, secrets are found by the text rules alone.
    """
    if isinstance(given, str):
        if len(given) > 2 * _WINDOW:
            return _cut_redacted(given, room)
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return _cut_redacted(given, room)
    try:
        clean = json.dumps(redact_value(given), ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return _CUT_NOTE.format(left_out=0)
    return _cut(clean, clean, len(clean), room)


def _cut_redacted(text: str, room: int) -> str:
    if len(text) <= 2 * _WINDOW:
        clean = redact(text)
        return _cut(clean, clean, len(clean), room)
    return _cut(redact(text[:_WINDOW]), redact(text[-_WINDOW:]), len(text), room)


def _cut(start: str, end: str, length: int, room: int) -> str:
    """Keep two thirds of `room` from the start, a note, a quarter from the end."""
    if length <= room:
        return start
    first, last = room * 2 // 3, room // 4
    note = _CUT_NOTE.format(left_out=length - first - last)
    return f"{start[:first]}\n{note}\n{end[-last:]}"


FENCE = re.compile(rf"^\[[0-9a-f]{{{MARK_CHARS}}} (?:begin|end)\]", re.MULTILINE)
"""Matches the lines of `fenced`; an answer that contains one repeats its prompt."""


def mark_for(*texts: str) -> str:
    """Return a mark that does not occur in `texts`, the same for the same texts."""
    data = "\x00".join(texts)
    mark = sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARS]
    while mark in data:
        mark = sha256(mark.encode()).hexdigest()[:MARK_CHARS]
    return mark


def fenced(mark: str, title: str, text: str) -> str:
    """Write `text` as one titled section of the data."""
    return f"[{mark} begin] {title}\n{text}\n[{mark} end]"


def sendable(text: str) -> str:
    """Return `text` in a form that can be sent.

    Half a surrogate pair is not UTF-8, and servers refuse NUL.
    """
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "\ufffd")


INPUT_CHARS = 160_000
"""Characters of passages in one request."""

CHARS_PER_TOKEN = 3
"""JSON and ids are denser than prose."""

INSTRUCTION_TOKENS = 3_000
"""Tokens of the prompt's own text, and of the user's question cut to 6,000 characters."""


def input_chars(context_length: int | None, summary_tokens: int) -> int:
    """Return the characters of passages that one request may hold.

    A `context_length` of None counts as a large window. Instructions, the previous summary and the
    answer share the window with the passages; `summary_tokens` are reserved for each of the
    summaries. In a window too small for that the passages keep a quarter, since a request must
    contain something.
    """
    if context_length is None:
        return INPUT_CHARS
    room = context_length - INSTRUCTION_TOKENS - 2 * summary_tokens
    return min(INPUT_CHARS, max(room, context_length // 4) * CHARS_PER_TOKEN)
