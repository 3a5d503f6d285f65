"""Apply the pruning rules to a live view: which rows are shown in which short form.

Pure and deterministic. A row that has a short form already is left alone, and a short form is used
only if it is smaller, so applying the rules again changes nothing. See
docs/explanation/pruning.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from storage.conversations.rows import Message, Row
from workers.conversation.tokens import estimate_message
from workers.conversation.transcript import ToolGroup, tool_groups
from workers.prune.findings import findings, reports_trouble
from workers.prune.forms import SHAPES, Form, Registry, still_running
from workers.prune.notes import (
    Handle,
    images_left_out,
    left_out,
    one_line,
    quoted,
    same_again,
    shortened_calls,
)
from workers.prune.outputs import Call, Output, calls_of, outputs_of, replaced

COPY_CHARS = 200
"""Equal outputs of at least this size are shown once: the older ones point at the newest."""

_NAME_CHARS = 64
_VALUE_CHARS = 80
_OTHER_VALUE_CHARS = 40
_OTHER_ARGUMENTS = 2


class Rule(StrEnum):
    """The pruning rule that was applied to a row."""

    COPY = "copy"
    RESULT = "result"
    ARGUMENTS = "arguments"
    IMAGES = "images"


@dataclass(frozen=True, slots=True)
class PruneRules:
    """The settings of the rules: the size in characters above which an output is shortened, and
    which tools are exempt or of which kind."""

    min_result_chars: int
    registry: Registry


@dataclass(frozen=True, slots=True)
class Shortened:
    """A row and its short form. `tokens` is the size of the short form, `same_as` the position of
    the later output that it points at."""

    row: Row
    message: Message
    tokens: int
    rules: tuple[Rule, ...]
    tools: tuple[str, ...]
    same_as: int | None = None

    @property
    def spared(self) -> int:
        """Tokens that the short form saves; always more than 0."""
        return self.row.tokens - self.tokens


def shorten(
    view: Sequence[Row],
    old: frozenset[int],
    rules: PruneRules,
    *,
    session_key: int,
    groups: Sequence[ToolGroup] | None = None,
) -> tuple[Shortened, ...]:
    """Return short forms for rows of a whole live view, in view order.

    `old` are the indexes of the rows that may be touched: those of whole tool groups outside head
    and tail. Besides exempt tools, these stay whole: the results of the newest group that has any,
    and the newest result of a task that still runs in the background. `groups` are the tool groups
    of the view if known.
    """
    known = tool_groups(view) if groups is None else groups
    return tuple(_View(view, old, rules, session_key, known).shortened())


@dataclass(frozen=True, slots=True)
class _Place:
    """An output with its index in the view, and the call that it answers."""

    index: int
    output: Output
    call: Call | None


class _View:
    """A live view with the relations between its calls and outputs."""

    def __init__(
        self,
        view: Sequence[Row],
        old: frozenset[int],
        rules: PruneRules,
        session_key: int,
        groups: Sequence[ToolGroup],
    ) -> None:
        self._view = view
        self._old = old
        self._rules = rules
        self._session_key = session_key
        self._calls: dict[int, tuple[Call, ...]] = {
            group.call: calls_of(message)
            for group in groups
            if (message := view[group.call].message) is not None
        }
        self._outputs = list(self._places(groups))
        self._newest = next(
            (frozenset(g.results) for g in reversed(groups) if g.results), frozenset()
        )
        self._copies = self._newest_copies()

    def shortened(self) -> Iterator[Shortened]:
        by_row: dict[int, list[_Place]] = {}
        for place in self._outputs:
            by_row.setdefault(place.index, []).append(place)
        for index, row in enumerate(self._view):
            if index not in self._old or row.pruned or row.message is None or row.opens_turn:
                continue
            made = self._short_form(index, row, by_row.get(index, []))
            if made is not None and made.spared > 0:
                yield made

    def _short_form(self, index: int, row: Row, outputs: list[_Place]) -> Shortened | None:
        message, used, tools, same_as = row.message, [], [], None
        if message is None:
            return None
        if index in self._calls:
            calls = self._calls[index]
            exempt = frozenset(i for i, call in enumerate(calls) if self._form(call) is None)
            shorter = shortened_calls(message, exempt, self._handle(row))
            if shorter is not None:
                message = shorter
                used.append(Rule.ARGUMENTS)
                tools += [call.name for i, call in enumerate(calls) if i not in exempt]
        notes: dict[int, str] = {}
        images: dict[int, str] = {}
        for place in outputs:
            rule, note, copy = self._note(place)
            if rule is None:
                continue
            (images if rule is Rule.IMAGES else notes)[place.output.part] = note
            used.append(rule)
            tools.append(place.call.name if place.call else "")
            same_as = copy if same_as is None or (copy or 0) > same_as else same_as
        if notes or images:
            message = replaced(message, notes, images)
        if not used:
            return None
        return Shortened(
            row,
            message,
            estimate_message(message),
            tuple(dict.fromkeys(used)),
            tuple(dict.fromkeys(tools)),
            same_as,
        )

    def _note(self, place: _Place) -> tuple[Rule | None, str, int | None]:
        """Return the rule that applies to an output, the note that replaces it, and the position of
        the copy that the note points at."""
        output = place.output
        form = self._form(place.call)
        if form is None or place.index in self._newest:
            return None, "", None
        large = len(output.text) > self._rules.min_result_chars
        copy = self._copy(place)
        if not (large or copy is not None or output.images) or self._runs(place):
            return None, "", None
        handle = self._handle(self._view[place.index])
        if not large and copy is None:
            return Rule.IMAGES, images_left_out(output.images, handle), None
        shape = SHAPES[form]
        logs = shape.logs or (shape.reports and reports_trouble(output.text))
        found = findings(output.texts, logs=logs, failed=output.is_error)
        facts = found.in_words(begins=output.text if shape.begins else "")
        what = _described_call(place.call, form)
        if copy is not None:
            return Rule.COPY, same_again(what, facts, handle), self._view[copy].position
        return Rule.RESULT, left_out(what, facts, handle), None

    def _may_be_copy(self, output: Output) -> bool:
        return len(output.text) >= COPY_CHARS and not output.images

    def _copy(self, place: _Place) -> int | None:
        """Return the index of the newest row with the same output if that is a later row and stays;
        else None."""
        if not self._may_be_copy(place.output):
            return None
        newest = self._copies.get(place.output.text)
        if newest is None or newest.index <= place.index or self._shrinks(newest):
            return None
        return newest.index

    def _newest_copies(self) -> dict[str, _Place]:
        """Return the newest place of each output, by its text."""
        return {
            place.output.text: place
            for place in self._outputs
            if self._may_be_copy(place.output) and not self._view[place.index].pruned
        }

    def _shrinks(self, newest: _Place) -> bool:
        """Return whether the newest copy is itself shortened for its size: then no note can point
        at it."""
        small = len(newest.output.text) <= self._rules.min_result_chars
        if small or newest.index not in self._old or newest.index in self._newest:
            return False
        return self._form(newest.call) is not None and not self._runs(newest)

    def _runs(self, place: _Place) -> bool:
        if place.call is None:
            return False
        later = (
            one.call.text
            for one in self._outputs
            if one.index > place.index and one.call is not None
        )
        return still_running(place.call, place.output.text, later)

    def _form(self, call: Call | None) -> Form | None:
        return Form.OTHER if call is None else self._rules.registry.form_of(call.name)

    def _handle(self, row: Row) -> Handle:
        return Handle(self._session_key, row.position)

    def _places(self, groups: Sequence[ToolGroup]) -> Iterator[_Place]:
        answered: dict[int, list[ToolGroup]] = {}
        for group in groups:
            for index in group.results:
                answered.setdefault(index, []).append(group)
        for index, among in sorted(answered.items()):
            row = self._view[index]
            for output in outputs_of(row):
                group = next((g for g in among if output.answers in g.calls), among[0])
                calls = self._calls.get(group.call, ())
                yield _Place(index, output, _answered_call(group, calls, index, output, row))


def _answered_call(
    group: ToolGroup, calls: tuple[Call, ...], index: int, output: Output, row: Row
) -> Call | None:
    """Return the call that an output answers, with the row's name for the tool if the call has
    none."""
    slots = [i for i, call in enumerate(calls) if call.id == output.answers]
    slot = next((i for i in slots if group.answered_by[i] == index), slots[-1] if slots else None)
    found = None if slot is None else calls[slot]
    name = row.message.get("name") if row.message else None
    if found is None:
        return Call(output.answers, name, "") if isinstance(name, str) and name else None
    return found if found.name or not isinstance(name, str) else Call(found.id, name, found.given)


def _described_call(call: Call | None, form: Form) -> str:
    """Return a call in a few words: its tool, and the arguments that show what it did."""
    if call is None:
        return "a tool"
    name = one_line(call.name, _NAME_CHARS) or "a tool"
    arguments = call.arguments
    shown = [
        f"{one_line(key, _OTHER_VALUE_CHARS)}={_value(arguments[key], room)}"
        for key, room in _chosen(arguments, SHAPES[form].arguments)
    ]
    if not shown and call.text.strip() not in ("", "{}", '""'):
        shown = [quoted(call.text, _VALUE_CHARS)] if not arguments else []
    return f"{name}({', '.join(shown)})"


def _chosen(arguments: Mapping[str, object], wanted: Sequence[str]) -> list[tuple[str, int]]:
    known = [key for key in wanted if arguments.get(key) not in (None, "")]
    if known:
        return [(key, _VALUE_CHARS) for key in known]
    return [(key, _OTHER_VALUE_CHARS) for key in list(arguments)[:_OTHER_ARGUMENTS]]


def _value(value: object, room: int) -> str:
    if isinstance(value, str):
        return quoted(value, room)
    return one_line(Call("", "", value).text, room)
