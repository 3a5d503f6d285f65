"""What a command writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from afterturn.exits import ReaderGone

PIPE_SIZE = (120, 40)
"""Columns and lines for charts where there is no terminal and COLUMNS does not say."""

_UNLIMITED = 100_000

_C0_AND_C1 = [*range(0x20), *range(0x7F, 0xA0)]
_VISIBLE = {code: f"\\x{code:02x}" for code in _C0_AND_C1 if chr(code) not in "\n\t"}
_VISIBLE |= {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def plain(text: str) -> str:
    """Return `text` with everything visible that would steer a terminal."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").translate(_VISIBLE)


class Output:
    """The streams of a command. With `as_json` standard output gets one document only."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.results = _console(stderr=False)
        self.notices = _console(stderr=True)

    @property
    def table_width(self) -> int | None:
        """Columns that a table may take: in a pipe there is no limit, unless COLUMNS sets one."""
        return self.results.width if self.results.is_limited else None

    @property
    def progress(self) -> Console:
        """The console on which a long command shows how far it is."""
        return self.notices if self.as_json else self.results

    def document(self, value: Any) -> None:
        """Write the one JSON document. Pure ASCII, so that no encoding can break it."""
        self.text(json.dumps(value, indent=2) + "\n")

    def text(self, text: str) -> None:
        """Write a result as it is."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error

    def show(self, *renderables: RenderableType) -> None:
        """Write a result for people."""
        for renderable in renderables:
            # Sentences are left to the terminal to wrap: a pipe gets them whole.
            whole = isinstance(renderable, str | Text)
            self.results.print(renderable, soft_wrap=whole, crop=False)

    def write(self, *sentences: str, style: str = "") -> None:
        """Write sentences of ours, broken between words on a terminal and whole in a pipe."""
        for sentence in sentences:
            text = Text(plain(sentence), style=style)
            self.results.print(text, soft_wrap=not self.results.is_terminal)

    def notice(self, text: str, style: str = "") -> None:
        """Write a line that is no result, broken between words on a terminal."""
        line = Text(plain(text), style=style)
        self.notices.print(line, soft_wrap=not self.notices.is_terminal)


class _Console(Console):
    @property
    def is_limited(self) -> bool:
        """Whether lines have a width that they should keep to."""
        return self.is_terminal or "COLUMNS" in os.environ

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a table that keeps to no width is printed whole, without filling blanks."""
        tables = [one for one in objects if isinstance(one, Table)]
        if self.is_terminal or not tables:
            super().print(*objects, **options)
            return
        width = self.width
        if not self.is_limited:
            room = self.options.update(max_width=_UNLIMITED)
            self.width = max(width, *(self.measure(one, options=room).maximum for one in tables))
        with self.capture() as written:
            super().print(*objects, **options)
        self.width = width
        lines = written.get().split("\n")
        super().out("\n".join(line.rstrip(" ") for line in lines), end="", highlight=False)

    def on_broken_pipe(self) -> None:
        raise ReaderGone


def _console(*, stderr: bool) -> _Console:
    console = _Console(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        # Rich itself leaves bold and dim on; who wants no colour wants no codes (NO_COLOR).
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )
    if not console.is_limited:
        console.size = PIPE_SIZE
    return console
