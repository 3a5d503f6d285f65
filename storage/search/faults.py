"""Which failures of a database are the index's own, so that everything but searching goes on."""

from __future__ import annotations

from storage.errors import DatabaseUnavailable

_SQLITE_CODES = frozenset({11, 267, 1})
"""SQLITE_CORRUPT, SQLITE_CORRUPT_VTAB, and SQLITE_ERROR, with which a missing table is told."""

_POSTGRESQL_STATES = frozenset({"42P01", "42703", "XX001", "XX002", "58P01"})
"""A missing table or column, and data, index or file damaged."""


def is_index_fault(error: DatabaseUnavailable) -> bool:
    """Whether a statement failed over the index, seen from where only the index was asked."""
    driver = getattr(error.__cause__, "orig", None)
    code = getattr(driver, "sqlite_errorcode", None)
    if code is not None:
        return code in _SQLITE_CODES or code & 0xFF == 11
    return getattr(driver, "sqlstate", None) in _POSTGRESQL_STATES
