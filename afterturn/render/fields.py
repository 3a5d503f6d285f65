"""One list of fields makes a thing's JSON document, its row of a table and its lines.

A key and a heading of the same fact stand side by side, so that `--json` and what people see
cannot diverge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from afterturn.render.console import Output, plain
from afterturn.render.words import NONE, duration, moment, moment_utc, number, share

S = TypeVar("S")
T = TypeVar("T")

_GAP = 3
"""Characters between two columns."""

_LEAST = 14
"""A column of words is never made narrower than this, if its words are so long."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is written: for people, and in JSON. Columns of `right` forms are aligned to the
    right; the cells of `whole` ones are never broken, as an id is for copying."""

    text: Callable[[Any], str]
    json: Callable[[Any], Any] = lambda value: value
    right: bool = False
    whole: bool = False


def _words(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value)


TEXT = Form(_words)
OPTIONAL = Form(lambda value: "" if value is None else str(value))
ID = Form(_words, whole=True)
SERIAL = Form(str, right=True, whole=True)
NUMBER = Form(number, right=True, whole=True)
SHARE = Form(share, right=True, whole=True)
MOMENT = Form(moment, moment_utc, whole=True)
DURATION = Form(duration, right=True, whole=True)


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A fact about a thing: `name` is its key in JSON, empty for people only; `header` heads its
    column or line, None for programs only.

    `text` gives words for people where the form's are not enough. Where a table does not fit a
    terminal, columns go by `priority`, the highest first; those of 0 stay.
    """

    name: str
    header: str | None
    value: Callable[[T], Any]
    form: Form = TEXT
    text: Callable[[T], str] | None = None
    priority: int = 0

    def words(self, thing: T) -> str:
        """Return what people read, with nothing in it that steers a terminal."""
        return plain(self.form.text(self.value(thing)) if self.text is None else self.text(thing))


Fields: TypeAlias = Sequence[Field[T]]


def for_people(
    header: str, text: Callable[[T], str], form: Form = TEXT, priority: int = 0
) -> Field[T]:
    """Return a field for people only, made of several facts."""
    return Field("", header, text, form, text, priority)


def for_programs(*names: str) -> list[Field[Any]]:
    """Return fields for programs only, whose values are attributes of the same names."""
    return [Field(name, None, attrgetter(name)) for name in names]


def within(get: Callable[[S], T], fields: Fields[T]) -> list[Field[S]]:
    """Return the fields of a part as fields of the whole that `get` takes it from."""

    def through(take: Callable[[T], Any]) -> Callable[[S], Any]:
        return lambda whole: take(get(whole))

    return [
        Field(
            one.name,
            one.header,
            through(one.value),
            one.form,
            one.text and through(one.text),
            one.priority,
        )
        for one in fields
    ]


def document(fields: Fields[T], thing: T) -> dict[str, Any]:
    """Return the JSON document of a thing."""
    return {one.name: one.form.json(one.value(thing)) for one in fields if one.name}


def documents(fields: Fields[T], things: Iterable[T]) -> list[dict[str, Any]]:
    """Return the JSON documents of things."""
    return [document(fields, thing) for thing in things]


def lines(fields: Fields[T], thing: T) -> Table:
    """Return a thing as lines of names and values; fields without words are left out."""
    pairs = ((one.header, one.words(thing)) for one in fields if one.header is not None)
    return facts((header, words) for header, words in pairs if words)


def line(fields: Fields[T], thing: T, *, without: Collection[str] = ()) -> str:
    """Return a thing on one line, without headings: for pipes and for following."""
    shown = [one for one in fields if one.header is not None and one.header not in without]
    return "  ".join(
        f"{one.words(thing):>6}" if one.form is SERIAL else one.words(thing) for one in shown
    )


def table(
    fields: Fields[T],
    things: Sequence[T],
    *,
    width: int | None = None,
    title: str | None = None,
    without: Collection[str] = (),
) -> Table:
    """Return a table of things, without empty columns and those that are headed by `without`.

    Where it would be wider than `width`, columns that matter less are left out.
    """
    shown = [one for one in fields if one.header is not None and one.header not in without]
    cells = [[one.words(thing) for thing in things] for one in shown]
    empty = [at for at, texts in enumerate(cells) if not any(texts)]
    for at in reversed(empty):
        del shown[at], cells[at]
    while width is not None and _least_width(shown, cells) > width:
        least = max(range(len(shown)), key=lambda at: (shown[at].priority, at))
        if not shown[least].priority:
            break
        del shown[least], cells[least]
    found = columns(title=title)
    for one, of_column in zip(shown, cells, strict=True):
        found.add_column(
            one.header or "",
            justify="right" if one.form.right else "left",
            no_wrap=one.form.whole,
            overflow="fold",
            min_width=_least_column(one, of_column),
        )
    for row in zip(*cells, strict=True):
        found.add_row(*map(Text, row))
    if width is not None and (needed := _least_width(shown, cells)) > width:
        # Better that the terminal breaks lines than that an id is cut.
        found.width = needed
    return found


def show_table(
    output: Output,
    fields: Fields[T],
    things: Sequence[T],
    *,
    title: str | None = None,
    without: Collection[str] = (),
) -> None:
    """Print a table of things; see `table`."""
    output.show(table(fields, things, width=output.table_width, title=title, without=without))


def _least_width(shown: Fields[Any], cells: Sequence[Sequence[str]]) -> int:
    widths = [_least_column(one, texts) for one, texts in zip(shown, cells, strict=True)]
    return sum(widths) + _GAP * len(widths)


def _least_column(one: Field[Any], texts: Sequence[str]) -> int:
    all_texts = [one.header or "", *texts]
    if one.form.whole:
        return max(map(cell_len, all_texts))
    words = (cell_len(word) for text in all_texts for word in text.split())
    return min(_LEAST, max(words, default=0))


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return a list of names and what they are."""
    found = Table.grid(padding=(0, 2))
    found.add_column(style="dim", no_wrap=True)
    found.add_column(overflow="fold")
    for name, value in pairs:
        found.add_row(name, plain(value))
    return found


def columns(*headings: str, title: str | None = None) -> Table:
    """Return an empty table; a heading that starts with `>` is that of a column of numbers."""
    found = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False
    )
    for heading in headings:
        numeric = heading.startswith(">")
        found.add_column(
            heading.removeprefix(">"),
            justify="right" if numeric else "left",
            no_wrap=numeric,
            overflow="fold",
        )
    return found


def cell(text: str, style: str = "") -> Text:
    """Return a cell with a foreign text: nothing in it is markup or steers a terminal."""
    return Text(plain(text), style=style)
