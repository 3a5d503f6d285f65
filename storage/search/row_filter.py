"""The part of a statement that says which rows a search may give: the rule is here alone."""

from __future__ import annotations

from typing import Any

from storage.escape import escape
from storage.search.scope import SUMMARY, Scope

VISIBLE_MESSAGE = "m.kind = 'message' AND (m.active = 1 OR m.compacted = 1)"
"""Live or archived, never rewound, and no marker (ENGINE.md §2)."""

VISIBLE_SUMMARY = "y.status = 'live'"
"""Shown by a live marker; superseded and undone versions are not (ENGINE.md §11)."""


def message_filter(scope: Scope) -> str:
    """A condition over `messages m` and `sessions s`; its values are `filter_values`."""
    conditions = [VISIBLE_MESSAGE, *_session_conditions(scope, "m")]
    roles = None if scope.roles is None else [role for role in scope.roles if role != SUMMARY]
    if roles is not None:
        names = ", ".join(f":role_{at}" for at in range(len(roles)))
        conditions.append(f"m.role IN ({names})" if names else "1 = 0")
    return " AND ".join(conditions)


def summary_filter(scope: Scope) -> str:
    """The same over `summaries y` and `sessions s`."""
    conditions = [VISIBLE_SUMMARY, *_session_conditions(scope, "y")]
    return " AND ".join(conditions if scope.has_summaries else [*conditions, "1 = 0"])


def filter_values(scope: Scope) -> dict[str, Any]:
    """What is bound in both conditions."""
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
