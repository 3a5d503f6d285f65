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
"""Columns and lines where there is no terminal and COLUMNS does not say: room for every table."""

_C0_AND_C1 = [*range(0x20), *range(0x7F, 0xA0)]
_VISIBLE = {code: f"\\x{code:02x}" for code in _C0_AND_C1 if chr(code) not in "\n\t"}
_VISIBLE |= {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def plain(text: str) -> str:
    """`text` with everything visible that would steer a terminal: a stored message must not."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").translate(_VISIBLE)


class Output:
    """Where a command writes. With `as_json` standard output gets one document and nothing else."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.results = _console(stderr=False)
        self.notices = _console(stderr=True)

    @property
    def progress(self) -> Console:
        """Where a long command shows how far it is."""
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
            self.results.print(renderable, soft_wrap=isinstance(renderable, str | Text))

    def tell(self, *sentences: str, style: str = "") -> None:
        """Write sentences of ours, broken between words on a terminal and whole in a pipe."""
        for sentence in sentences:
            text = Text(plain(sentence), style=style)
            self.results.print(text, soft_wrap=not self.results.is_terminal)

    def notice(self, text: str, style: str = "") -> None:
        """Write a line that is no result, broken between words on a terminal."""
        line = Text(plain(text), style=style)
        self.notices.print(line, soft_wrap=not self.notices.is_terminal)


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print; where nobody looks at a screen, without the blanks that fill a table's lines."""
        if self.is_terminal or not any(isinstance(one, Table) for one in objects):
            super().print(*objects, **options)
            return
        with self.capture() as written:
            super().print(*objects, **options)
        lines = written.get().split("\n")
        super().out("\n".join(line.rstrip(" ") for line in lines), end="", highlight=False)

    def on_broken_pipe(self) -> None:
        raise ReaderGone


def _console(*, stderr: bool) -> Console:
    console = _Console(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        # Rich itself leaves bold and dim on; who wants no colour wants no codes (NO_COLOR).
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.size = PIPE_SIZE
    return console
