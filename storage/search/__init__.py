"""Recall: search over everything that was ever said (ENGINE.md §11).

One interface over SQLite's FTS5 and PostgreSQL's text search with the same answers on both.

| module | does |
|---|---|
| `query`, `words`, `stems`, `stop_words` | reads a question; cuts any text into words |
| `matching`, `excerpts` | ranks texts, and shows why one was found |
| `scope`, `row_filter` | says whose messages, and which |
| `clauses`, `candidates`, `discovering`, `marks` | discover: a question's hits, page by page |
| `operators` | the same over all owners, logged |
| `surroundings`, `reading` | what is around a hit; scroll and browse |
| `texts`, `documents` | what of a row is indexed |
| `sqlite_index`, `postgresql_index`, `generations` | the index in either database |
| `triggers`, `indexing`, `rebuilding` | keeps it up, makes it anew |
| `checking`, `faults` | finds it broken |
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
