"""Recall: search over everything that was ever said; see docs/explanation/recall.md.

One interface over SQLite's FTS5 and PostgreSQL's text search with the same answers on both.

| module | does |
|---|---|
| `words` | cuts any text into words |
| `query` | reads a question, and derives the clauses that the index is asked for |
| `scope` | says whose messages, and which |
| `documents` | says what of a row is indexed |
| `candidates` | finds the documents that may answer |
| `matching` | ranks texts, and excerpts show why one was found |
| `results` | defines hits, pages and the marks between them |
| `discovering` | discover: a question's hits, page by page, of one owner or of all |
| `surroundings` | adds what is around a hit; scroll and browse |
| `sqlite_index`, `postgresql_index` | store the index in either database |
| `generations` | tracks which indexes exist, and the triggers that note new rows |
| `indexing` | indexes new rows, and rebuilds the index |
| `checking` | checks whether the index can be trusted |
"""

from __future__ import annotations

from storage.search.checking import IndexHealth, check
from storage.search.discovering import discover, discover_of_all_owners, is_behind
from storage.search.indexing import Indexed, RebuildOvertaken, Rebuilt, index_pending, rebuild
from storage.search.results import (
    Browsed,
    BrowsePage,
    Covering,
    Found,
    Hit,
    Line,
    Scrolled,
    SearchMarkError,
    SessionFacts,
)
from storage.search.scope import ROLES, SUMMARY, Scope
from storage.search.surroundings import browse, scroll

__all__ = [
    "ROLES",
    "SUMMARY",
    "BrowsePage",
    "Browsed",
    "Covering",
    "Found",
    "Hit",
    "IndexHealth",
    "Indexed",
    "Line",
    "RebuildOvertaken",
    "Rebuilt",
    "Scope",
    "Scrolled",
    "SearchMarkError",
    "SessionFacts",
    "browse",
    "check",
    "discover",
    "discover_of_all_owners",
    "index_pending",
    "is_behind",
    "rebuild",
    "scroll",
]
