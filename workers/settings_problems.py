"""What pydantic found wrong with settings, in words that an operator can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from workers.setting_errors import Problem
from workers.setting_rows import allowed_values, block_at, describe_settings, setting_at
from workers.settings_yaml import Document, KeyPath, dotted
from workers.urls import masked_url

_SECRET_WORDS = re.compile(
    r"(?:api_?)?keys?|auth(?:orization)?|bearer|credentials?|pass(?:wd|word)?|pwd|secrets?|token",
    re.I,
)
_SECRET_LOOKS = re.compile(
    r"\b(?:sk|pk|rk)[-_]|\bgh[pousr]_|\bgithub_pat_|\bxox[a-z]-|\bAKIA|\beyJ|\bbearer\b", re.I
)


def problems_in(error: ValidationError, document: Document) -> tuple[Problem, ...]:
    """Return every problem of `error`; `document` tells the lines."""
    return tuple(_problem(detail, document) for detail in error.errors(include_url=False))


def nearest_key(path: KeyPath) -> str:
    """Return the dotted known key that is most likely meant by the unknown key at `path`.

    The same name in another block goes first, then a similar name beside it, then a similar one
    elsewhere, then whatever beside it resembles it most.
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
    """Return `value` fit for a message: short, without secrets, containers by their kind only."""
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
