"""Settings in words: every setting as a row, and the problems of a configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from workers.settings.base import Allowed, Problem, UnitName
from workers.settings.document import Document, KeyPath, dotted
from workers.settings.model import Settings
from workers.settings.urls import masked_url

_SECRET_WORDS = re.compile(
    r"(?:api_?)?keys?|auth(?:orization)?|bearer|credentials?|pass(?:wd|word)?|pwd|secrets?|token",
    re.I,
)
_SECRET_LOOKS = re.compile(
    r"\b(?:sk|pk|rk)[-_]|\bgh[pousr]_|\bgithub_pat_|\bxox[a-z]-|\bAKIA|\beyJ|\bbearer\b", re.I
)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting in words: dotted key, allowed values, default and meaning."""

    key: str
    allowed: str
    default: str
    meaning: str


def describe_settings() -> tuple[SettingRow, ...]:
    """Return a row for every setting, in the order of the models."""
    return tuple(_rows(Settings, ""))


def as_markdown(rows: Sequence[SettingRow]) -> str:
    """Return `rows` as a Markdown table that ends with a line break."""
    lines = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    for row in rows:
        lines.append(f"| `{row.key}` | {row.allowed} | {row.default} | {row.meaning} |")
    return "\n".join(lines) + "\n"


def block_at(path: Sequence[str | int]) -> type[BaseModel] | None:
    """Return the block at `path` in the settings, None if there is none.

    Numbers in `path` are indexes into a list.
    """
    block: type[BaseModel] | None = Settings
    for step in path:
        if isinstance(step, str):
            if block is None or step not in block.model_fields:
                return None
            block = _block_in(block.model_fields[step].annotation)
    return block


def setting_at(path: Sequence[str | int]) -> FieldInfo | None:
    """Return the deepest setting on the way along `path`, None if the first step is unknown."""
    found = None
    for end, step in enumerate(path):
        block = block_at(path[:end])
        if block is None or not isinstance(step, str):
            continue
        found = block.model_fields.get(step, found)
    return found


def allowed_values(setting: FieldInfo) -> str:
    """Return in words what `setting` accepts, such as `integer from 1 to 256 jobs`."""
    for mark in setting.metadata:
        if isinstance(mark, Allowed):
            return mark.text
    return _words(setting.annotation, setting.metadata)


def problems_in(error: ValidationError, document: Document) -> tuple[Problem, ...]:
    """Return every problem of `error`; `document` knows the lines."""
    return tuple(_problem(detail, document) for detail in error.errors(include_url=False))


def nearest_key(path: KeyPath) -> str:
    """Return the dotted known key that is most likely meant by the unknown key at `path`.

    The same name in another block comes first, then a similar name in its own block, then a similar
    one elsewhere, then the most similar name of its own block.
    """
    name = str(path[-1])
    block = block_at(path[:-1])
    beside = {key: dotted((*path[:-1], key)) for key in (block.model_fields if block else ())}
    elsewhere = {key.rpartition(".")[2]: key for key in _all_keys()}
    for names, cutoff in (
        (elsewhere, 1.0),
        (beside, 0.6),
        (elsewhere, 0.6),
        (beside or elsewhere, 0.0),
    ):
        if close := get_close_matches(name.lower(), names, n=1, cutoff=cutoff):
            return names[close[0]]
    raise AssertionError("a cutoff of 0 always finds a name")


def shown_value(key: str, value: Any) -> str:
    """Return `value` as text for a message: short, without secrets, containers by kind only."""
    if isinstance(value, BaseModel | dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value)
    if _holds_secrets(key) or _SECRET_LOOKS.search(text):
        return "***"
    if "://" in text or key.lower().endswith("url"):
        text = masked_url(text)
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return repr(short) if isinstance(value, str) else short


def _rows(block: type[BaseModel], prefix: str) -> Iterator[SettingRow]:
    for name, setting in block.model_fields.items():
        inner = setting.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _rows(inner, f"{prefix}{name}.")
        else:
            yield SettingRow(
                key=f"{prefix}{name}",
                allowed=allowed_values(setting),
                default=_default(setting),
                meaning=setting.description or "",
            )


def _block_in(annotation: Any) -> type[BaseModel] | None:
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _default(setting: FieldInfo) -> str:
    for mark in setting.metadata:
        if isinstance(mark, Allowed) and mark.default:
            return mark.default
    value = setting.get_default(call_default_factory=True, validated_data={})
    return value if isinstance(value, str) and value else json.dumps(value)


_SIMPLE = {bool: "true or false", str: "text", int: "integer", float: "number"}


def _words(annotation: Any, metadata: Sequence[Any]) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner, *marks = parts
        return _words(inner, [*metadata, *_flat(marks)])
    if origin in {Union, UnionType} and NoneType in parts:
        present = next(part for part in parts if part is not NoneType)
        return f"{_words(present, metadata)}, or null"
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping from {_words(parts[0], ())} to {_words(parts[1], ())}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "block of settings"
    return f"{_SIMPLE.get(annotation, 'JSON value')}{_range(metadata)}{_unit(metadata)}"


def _flat(marks: Sequence[Any]) -> Iterator[Any]:
    for mark in marks:
        if isinstance(mark, FieldInfo):
            yield from mark.metadata
        else:
            yield mark


def _range(metadata: Sequence[Any]) -> str:
    low = next((m.ge for m in metadata if hasattr(m, "ge")), None)
    high = next((m.le for m in metadata if hasattr(m, "le")), None)
    if low is None or high is None:
        return ""
    return f" from {low} to {high}"


def _unit(metadata: Sequence[Any]) -> str:
    return next((f" {m.name}" for m in metadata if isinstance(m, UnitName)), "")


def _holds_secrets(key: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", key)
    return "extra_body" in key or any(_SECRET_WORDS.fullmatch(word) for word in words)


def _problem(detail: ErrorDetails, document: Document) -> Problem:
    path = _path(detail["loc"])
    if detail["type"] == "invalid_key" or path[-1:] == ("[key]",):
        return _wrong_key(path, detail["input"], document)
    key, line = dotted(path), document.line_of(path)
    given = shown_value(key, detail["input"])
    if detail["type"] == "extra_forbidden":
        return Problem(key, "unknown key", given, nearest=nearest_key(path), line=line)
    own_words = detail["type"] == "value_error"
    message = str(detail["ctx"]["error"]) if own_words else "value not allowed"
    setting = setting_at(path)
    allowed = allowed_values(setting) if setting else None
    return Problem(key, message, given, allowed=allowed, line=line)


def _wrong_key(path: KeyPath, name: object, document: Document) -> Problem:
    block = path[:-2] if path[-1] == "[key]" else path[:-1]
    return Problem(
        dotted(block),
        "a key needs to be text, in quotes if it looks like anything else, and not empty",
        shown_value(dotted(block), name),
        line=document.line_of((*block, str(name))),
    )


def _path(steps: KeyPath) -> KeyPath:
    if "extra_body" not in steps:
        return steps
    # Inside free JSON every second step names a type.
    start = steps.index("extra_body") + 1
    return steps[:start] + steps[start::2]


def _all_keys() -> Iterator[str]:
    return (row.key for row in describe_settings())
