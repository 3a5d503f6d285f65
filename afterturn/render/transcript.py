"""Conversations and search hits on a terminal: one block per message or hit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent
from typing import Any

from rich.text import Text

from afterturn.render.console import plain
from afterturn.render.words import moment
from storage.search import Hit, Line, Scrolled
from workers.conversation.markers import is_marker_text

_STYLES = {
    "system": "magenta",
    "developer": "magenta",
    "user": "bold green",
    "assistant": "bold cyan",
    "tool": "yellow",
    "summary": "bold blue",
}
_FOUND = "bold yellow"
_AROUND = 160
"""Characters of a message that stands around a hit."""


def blocks(messages: list[dict[str, Any]]) -> Iterator[Text]:
    """Yield a block for each message, of any dialect."""
    for number, message in enumerate(messages, start=1):
        role = str(message.get("role", "?"))
        name = message.get("name")
        heading = f"{number} {role}" + (f" {name}" if name else "")
        texts = list(_texts(message))
        if any(map(is_marker_text, texts)):
            yield Text(plain(f"{heading}, summary of earlier messages"), style="bold blue")
        else:
            yield Text(plain(heading), style=_STYLES.get(role, ""))
        for text in texts:
            yield Text(indent(plain(text), "  "))
        yield Text("")


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        if content:
            yield content
    else:
        for part in content or ():
            yield _part(part)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield f"calls {function.get('name', '?')}({function.get('arguments', '')})"


def _part(part: Mapping[str, Any]) -> str:
    match part.get("type"):
        case "text" | "input_text" | "output_text":
            return str(part.get("text", ""))
        case "tool_use":
            return f"calls {part.get('name')}({json.dumps(part.get('input'), ensure_ascii=False)})"
        case "tool_result":
            content = part.get("content")
            text = content if isinstance(content, str) else "\n".join(map(_part, content or ()))
            return f"result: {text}"
        case other:
            return f"[{other}]"


def hit_blocks(hits: Sequence[Hit], window: int, *, all_owners: bool) -> Iterator[Text]:
    """Yield a block for each hit: where it is, what was found, `window` messages on either side."""
    for hit in hits:
        yield _heading(hit, all_owners=all_owners)
        before = [line for line in hit.window if line.position < hit.position]
        behind = [line for line in hit.window if line.position > hit.position]
        for line in before[len(before) - window :] if window else ():
            yield _around(line)
        yield _excerpt(hit)
        for line in behind[:window]:
            yield _around(line)
        if hit.covered_by is not None:
            text = " ".join(hit.covered_by.text.split())
            yield Text(f"      archived; summary: {plain(cut(text))}", style="dim")
        yield Text("")


def scroll_blocks(page: Scrolled) -> Iterator[Text]:
    """Yield the messages of a piece of a session, whole."""
    yield Text(plain(_name(page.session.id, page.session.title)), style="bold")
    for line in page.lines:
        style = "bold " if line.position == page.around else ""
        yield Text(
            plain(f"{line.position} {line.role}, {moment(line.at)}, id {line.message_id}")
            + (" (archived)" if line.archived else ""),
            style=f"{style}{_STYLES.get(line.role, '')}".strip(),
        )
        yield Text("\n".join(f"  {part}" for part in plain(line.text).split("\n")))


def _heading(hit: Hit, *, all_owners: bool) -> Text:
    session = hit.session
    owner = f"{session.owner}: " if all_owners else ""
    text = Text(plain(f"{owner}{_name(session.id, session.title)}"), style="bold")
    place = "summary" if hit.message_id is None else f"message {hit.message_id}"
    text.append(
        plain(f"  {session.source}, {moment(hit.at)}, {place}, position {hit.position}"),
        style="not bold dim",
    )
    return text


def _excerpt(hit: Hit) -> Text:
    text = Text(f"  {hit.role:>9}  ", style="")
    text.stylize(_STYLES.get(hit.role, ""), 0, len(text))
    at = 0
    for start, end in hit.excerpt.marks:
        text.append(_flat(hit.excerpt.text[at:start]))
        text.append(_flat(hit.excerpt.text[start:end]), style=_FOUND)
        at = end
    text.append(_flat(hit.excerpt.text[at:]))
    return text


def _around(line: Line) -> Text:
    text = cut(" ".join(line.text.split()))
    return Text(f"  {line.role:>9}  {plain(text)}", style="dim")


def _name(session_id: str, title: str | None) -> str:
    return f"{session_id} “{title}”" if title else session_id


def cut(text: str, size: int = _AROUND) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= size else f"{text[:size]}…"


def _flat(text: str) -> str:
    return plain(text.replace("\n", " "))
