"""Names that gateways give: of sessions, owners, chats, threads and events."""

from __future__ import annotations

MAX_BYTES = 512
"""Longest name in UTF-8. Four of them share one index row, which PostgreSQL ends at 2,704."""


class IdentifierError(ValueError):
    """A name cannot be used. Nothing was stored.

    `field` is the argument at fault.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def check_identifiers(**names: str | None) -> None:
    """Check names by the argument that they were given in.

    Raises `IdentifierError` for one that is not text, empty or longer than 512 bytes.
    """
    for field, name in names.items():
        if name is None:
            continue
        if not isinstance(name, str):
            raise IdentifierError(field, f"is a {type(name).__name__}, must be text")
        if not name:
            raise IdentifierError(field, "is empty; leave it out or give a name")
        size = len(name.encode("utf-8", "surrogatepass"))
        if size > MAX_BYTES:
            raise IdentifierError(
                field,
                f"has {size:,} bytes, at most {MAX_BYTES} are taken; use a hash of it instead",
            )
