"""The notes that stand where tool output, arguments or images were.

A note is one line in brackets that no conversation writes by habit, says that something is left
out, and ends with the handle of the original. So a model can tell it from content, and a note
that was copied into a new call is seen (faults F141).
"""

from __future__ import annotations

import re

from workers.pruning.handles import Handle

ELLIPSIS = "…"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")
_BRACKETS = str.maketrans({"⟦": "[", "⟧": "]"})
_WINDOW = 1_000
"""Characters that are looked at to show some: squeezing a whole file for a line takes long."""

_NOTE = re.compile(r"⟦[^⟦⟧\n]*\bwhole: out-\d+-\d+⟧")


def holds_note(text: str) -> bool:
    """Whether a note stands in a text, as in arguments that a model has copied it into."""
    return "⟦" in text and _NOTE.search(text) is not None


def left_out(what: str, facts: str, handle: Handle) -> str:
    """The note in the place of a tool's output."""
    return _note(f"output left out: {what} gave {facts}", handle)


def same_again(what: str, facts: str, handle: Handle) -> str:
    """The note in the place of an output that a later call gave again."""
    return _note(f"same output as of a later call: {what} gave {facts}", handle)


def argument_left_out(facts: str, handle: Handle) -> str:
    """The note in the place of a long argument."""
    return _note(f"argument left out: {facts}", handle)


def images_left_out(count: int, handle: Handle) -> str:
    """The note in the place of images."""
    return _note(f"{counted(count, 'image')} left out", handle)


def counted(number: int, noun: str) -> str:
    """`1 line`, `1,234 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def quoted(text: str, room: int) -> str:
    """The beginning of a foreign text in quotes, on one line: matter that is cited, no order."""
    return f'"{one_line(text, room)}"'


def one_line(text: str, room: int) -> str:
    """A text of at most `room` characters without line breaks or brackets of a note."""
    line = " ".join(_CONTROL.sub(" ", text[: max(_WINDOW, room)]).translate(_BRACKETS).split())
    whole = len(line) <= room and len(text) <= max(_WINDOW, room)
    return line if whole else line[: room - 1] + ELLIPSIS


def _note(words: str, handle: Handle) -> str:
    return f"⟦{words}; whole: {handle}⟧"
