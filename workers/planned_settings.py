"""Settings that are checked already but that nothing reads in this version: none at present."""

from __future__ import annotations

WITHOUT_EFFECT: frozenset[str] = frozenset()
