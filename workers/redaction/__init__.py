"""Redaction: secrets are removed from text before it leaves the process and from what returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.redaction.formats import redact_formats
from workers.redaction.names import Family, family_of, is_placeholder, looks_random, redact_named

REDACTED = "[REDACTED]"

# Replacing one secret can expose the border of another; two rounds are enough in practice.
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Redaction:
    """A text without its secrets, and how many were replaced."""

    text: str
    secrets: int


def redaction(text: str) -> Redaction:
    """Replace each secret in `text` by `[REDACTED]` and count them.

    Knows the formats of vendors, private key blocks, credentials in URLs and headers, and what
    follows a name that ends in key, token, secret, password or credential.
    Placeholders such as `<your key>` or `$TOKEN` stay. Idempotent. Always takes time linear in the
    length of `text`.
    """
    count = 0

    def replace(_: str) -> str:
        nonlocal count
        count += 1
        return REDACTED

    for _ in range(_ROUNDS):
        before = count
        text = redact_formats(redact_named(text, replace), replace)
        if count == before:
            break
    return Redaction(text, count)


def redact(text: str) -> str:
    """Return `text` with `[REDACTED]` in place of each secret; see `redaction`."""
    return redaction(text).text


def count_secrets(text: str) -> int:
    """Count the secrets in `text` that `redact` would replace."""
    return redaction(text).secrets


def redact_value(value: Any) -> Any:
    """Redact every string anywhere in a JSON value and return a new value.

    A value of any shape under a key that names a secret is replaced whole; empty values, true,
    false and placeholders stay.
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact_value(key): _under(key, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(inner) for inner in value]
    return value


def _under(key: Any, value: Any) -> Any:
    family = family_of(key) if isinstance(key, str) else None
    if family is None or not value or value is True:
        return redact_value(value)
    if isinstance(value, str) and is_placeholder(value):
        return value
    if family is Family.OTHER_KEY and not looks_random(str(value), at_least=16):
        return redact_value(value)
    return REDACTED
