"""Search over all owners: for operators, on its own and never unnoticed."""

from __future__ import annotations

import logging

from storage import audit
from storage.audit import AuditAction
from storage.engine import Database
from storage.search.discovering import discover
from storage.search.results import Found
from storage.search.scope import Scope

log = logging.getLogger(__name__)


def discover_of_all_owners(
    database: Database,
    text: str,
    *,
    operator: str,
    source: str | None = None,
    roles: tuple[str, ...] | None = None,
    since: int | None = None,
    until: int | None = None,
    limit: int,
    after: str | None = None,
) -> Found:
    """As `discover`, whoever owns the messages. Every call stands in the audit trail, with the
    operator's name and whose sessions were shown; neither the question nor what was found does."""
    scope = Scope(None, source=source, roles=roles, since=since, until=until)
    found = discover(database, text, scope, limit=limit, after=after)
    owners = sorted({hit.session.owner for hit in found.hits})
    with database.write() as connection:
        audit.record(
            connection,
            database,
            AuditAction.SEARCHED_ACROSS_OWNERS,
            actor=operator,
            facts={"what": "search", "found": len(found.hits), "owners": owners},
        )
    log.warning(
        "operator %r searched the sessions of all owners: %d hits of owners %s",
        operator,
        len(found.hits),
        ", ".join(map(repr, owners)) or "none",
    )
    return found
