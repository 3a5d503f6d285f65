"""What a search found, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from afterturn.console import plain
from afterturn.words import cell, columns, moment, number
from storage.search import BrowsePage, Hit, Line, Scrolled

_AROUND = 160
"""Characters of a message that stands around a hit."""

_FOUND = "bold yellow"
_ROLES = {"user": "green", "assistant": "cyan", "tool": "yellow", "summary": "blue"}


def hit_blocks(hits: Sequence[Hit], window: int, *, all_owners: bool) -> Iterator[Text]:
    """A block for each hit: where it stands, what was found, `window` messages on either side."""
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
            told = " ".join(hit.covered_by.text.split())
            yield Text(f"      archived; summary: {plain(_cut(told))}", style="dim")
        yield Text("")


def scroll_blocks(page: Scrolled) -> Iterator[Text]:
    """The messages of a piece of a session, whole."""
    yield Text(plain(_name(page.session.id, page.session.title)), style="bold")
    for line in page.lines:
        style = "bold " if line.position == page.around else ""
        yield Text(
            plain(f"{line.position} {line.role}, {moment(line.at)}, id {line.message_id}")
            + (" (archived)" if line.archived else ""),
            style=f"{style}{_ROLES.get(line.role, '')}".strip(),
        )
        yield Text("\n".join(f"  {part}" for part in plain(line.text).split("\n")))


def browse_table(page: BrowsePage) -> Table:
    """The sessions, the last active ones first."""
    table = columns("last active", "session", "title", "source", ">messages", "first request")
    for one in page.sessions:
        table.add_row(
            moment(one.session.active_at),
            cell(one.session.id),
            cell(one.session.title or ""),
            cell(one.session.source),
            number(one.messages),
            cell(_cut(" ".join((one.first_request or "").split()), 60)),
        )
    return table


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
    text.stylize(_ROLES.get(hit.role, ""), 0, len(text))
    at = 0
    for start, end in hit.excerpt.marks:
        text.append(_flat(hit.excerpt.text[at:start]))
        text.append(_flat(hit.excerpt.text[start:end]), style=_FOUND)
        at = end
    text.append(_flat(hit.excerpt.text[at:]))
    return text


def _around(line: Line) -> Text:
    told = _cut(" ".join(line.text.split()))
    return Text(f"  {line.role:>9}  {plain(told)}", style="dim")


def _name(session_id: str, title: str | None) -> str:
    return f"{session_id} “{title}”" if title else session_id


def _cut(text: str, size: int = _AROUND) -> str:
    return text if len(text) <= size else f"{text[:size]}…"


def _flat(text: str) -> str:
    return plain(text.replace("\n", " "))
