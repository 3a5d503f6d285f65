"""Small pieces of Markdown that the generated pages share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `make reference` from the code. Change the code, not this page. -->"


def page(title: str, *parts: str) -> str:
    """Join the parts of a generated page under its title."""
    return "\n\n".join([f"# {title}", NOTICE, *(part.strip("\n") for part in parts)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def code(text: str) -> str:
    """Return `text` as code, or nothing for an empty text."""
    return f"`{text}`" if text else ""


def prose(docstring: str | None) -> str:
    """Return a docstring as paragraphs of Markdown without line breaks inside."""
    text = inspect.cleandoc(docstring or "")
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
