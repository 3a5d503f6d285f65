"""Every setting as a row of words: for the configuration table and for messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from workers.setting_types import Allowed, Unit
from workers.settings import Settings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: dotted key, allowed values, default and meaning, all in words."""

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
    """Return the block that stands at `path` in the settings, None if there is none.

    Numbers in `path` are places in a list.
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
    return next((f" {m.name}" for m in metadata if isinstance(m, Unit)), "")
