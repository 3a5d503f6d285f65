"""Scope of a search: whose sessions, and which messages in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from storage.types import escape

SUMMARY = "summary"
"""The role of summaries in a scope, since markers have none of their own."""

ROLES = ("user", "assistant", "tool", "system", SUMMARY)

_PRIVATE_USE = 0xF0000
_FIELDS = 0x10000


@dataclass(frozen=True, slots=True)
class Scope:
    """Filters; None is no filter. `owner` is None in a search over all owners alone.

    `session` is a session's key. `since` and `until` are milliseconds since 1970, the latter not
    included.
    """

    owner: str | None
    source: str | None = None
    roles: tuple[str, ...] | None = None
    session: int | None = None
    since: int | None = None
    until: int | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of every document in the scope; the rows decide about the other filters."""
        wanted = (
            None if self.owner is None else label(Label.OWNER, self.owner),
            None if self.session is None else label(Label.SESSION, str(self.session)),
            None if self.source is None else label(Label.SOURCE, self.source),
        )
        return tuple(one for one in wanted if one is not None)

    @property
    def has_messages(self) -> bool:
        """Whether any message may be in the scope."""
        return self.roles is None or any(role != SUMMARY for role in self.roles)

    @property
    def has_summaries(self) -> bool:
        """Whether any summary may be in the scope."""
        return self.roles is None or SUMMARY in self.roles


class Label(StrEnum):
    """A kind of label, which is indexed for a document beside its words."""

    OWNER = "o"
    SESSION = "s"
    SOURCE = "c"


def label(kind: Label, value: str) -> str:
    """Return a word that stands for `value`. Two values may share one: the row decides."""
    return f"{kind}{_digest(kind, value).hex()}"


def triple(kind: Label, value: str) -> str:
    """Return the same as three characters, which make one entry of an index of trigrams."""
    digest = _digest(kind, value)
    return "".join(
        chr(_PRIVATE_USE + int.from_bytes(digest[at : at + 2]) % (_FIELDS - 2)) for at in (0, 2, 4)
    )


def _digest(kind: Label, value: str) -> bytes:
    return blake2b(f"{kind}:{value}".encode(errors="surrogatepass"), digest_size=6).digest()


VISIBLE_MESSAGE = "m.kind = 'message' AND (m.active = 1 OR m.compacted = 1)"
"""Live or archived, never rewound, and no marker."""

VISIBLE_SUMMARY = "y.status = 'live'"
"""Shown by a live marker; superseded and undone versions are not."""


def message_filter(scope: Scope) -> str:
    """Return a condition over `messages m` and `sessions s`; its values are `filter_values`."""
    conditions = [VISIBLE_MESSAGE, *_session_conditions(scope, "m")]
    roles = None if scope.roles is None else [role for role in scope.roles if role != SUMMARY]
    if roles is not None:
        names = ", ".join(f":role_{at}" for at in range(len(roles)))
        conditions.append(f"m.role IN ({names})" if names else "1 = 0")
    return " AND ".join(conditions)


def summary_filter(scope: Scope) -> str:
    """Return the same over `summaries y` and `sessions s`."""
    conditions = [VISIBLE_SUMMARY, *_session_conditions(scope, "y")]
    return " AND ".join(conditions if scope.has_summaries else [*conditions, "1 = 0"])


def filter_values(scope: Scope) -> dict[str, Any]:
    """Return the parameters of both conditions."""
    values: dict[str, Any] = {
        "owner": None if scope.owner is None else escape(scope.owner),
        "source": None if scope.source is None else escape(scope.source),
        "session": scope.session,
        "since": scope.since,
        "until": scope.until,
    }
    roles = [role for role in scope.roles or () if role != SUMMARY]
    return {
        **{name: value for name, value in values.items() if value is not None},
        **{f"role_{at}": role for at, role in enumerate(roles)},
    }


def _session_conditions(scope: Scope, row: str) -> list[str]:
    wanted = (
        (scope.owner, "s.owner = :owner"),
        (scope.source, "s.source = :source"),
        (scope.session, 's."key" = :session'),
        (scope.since, f"{row}.created_at >= :since"),
        (scope.until, f"{row}.created_at < :until"),
    )
    return [condition for value, condition in wanted if value is not None]
