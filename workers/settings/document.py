"""Settings as YAML: safe, without duplicate keys, and with the line of every key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from workers.settings.base import Problem

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes, from the root of the file down."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file. `lines` counts from 1; merged keys (`<<`) have no line of their own.

    `doubles` are the keys that occur more than once in their block; `content` has the last one.
    """

    content: Any
    lines: Mapping[KeyPath, int]
    doubles: tuple[Problem, ...] = ()

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of the deepest known key on the way along `path`."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


class UnreadableError(Exception):
    """A text that is not YAML that settings can be read from; `problem` says why and where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_document(raw: bytes) -> Document:
    """Return the content of the YAML in `raw`; an empty text has None.

    Raises `UnreadableError` when it is not UTF-8, not YAML or more than one document. The
    messages show keys but no values.
    """
    try:
        loader = yaml.SafeLoader(raw.decode("utf-8-sig"))
        node = loader.get_single_node()
        # Before the next step, which mixes merged keys into the nodes.
        lines, doubles = _lines(node)
        content = None if node is None else loader.construct_document(node)
    except UnicodeDecodeError as error:
        raise UnreadableError(Problem("", f"not UTF-8 at byte {error.start}")) from None
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError) as error:
        # PyYAML raises the last four for impossible dates, wrong explicit tags and the like.
        raise UnreadableError(_syntax(error)) from None
    return Document(content, lines, doubles)


def dotted(path: KeyPath) -> str:
    """Return `path` as people write it: `auxiliary.compression.fallback_chain[0].model`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _lines(root: yaml.Node | None) -> tuple[dict[KeyPath, int], tuple[Problem, ...]]:
    lines: dict[KeyPath, int] = {}
    doubles = []
    for path, line in _keys(root, (), frozenset()):
        if path in lines:
            message = f"the key stands in line {lines[path]} already; keep one of them"
            doubles.append(Problem(dotted(path), message, line=line))
        else:
            lines[path] = line
    return lines, tuple(doubles)


def _keys(
    node: yaml.Node | None, path: KeyPath, above: frozenset[int]
) -> Iterator[tuple[KeyPath, int]]:
    if id(node) in above:  # An alias may name a node that contains it.
        return
    above |= {id(node)}
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _keys(item, (*path, index), above)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            yield here, key.start_mark.line + 1
            yield from _keys(value, here, above)


def _syntax(error: Exception) -> Problem:
    # The text of the error itself may quote the file.
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return Problem("", f"not YAML: {error.problem}", line=error.problem_mark.line + 1)
    return Problem("", "not YAML: a value cannot be read")
