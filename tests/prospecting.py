"""What sums say of a session against what its rows say."""

from __future__ import annotations

from dataclasses import replace

from storage import messages
from storage.engine import Database
from storage.prospects import read_prospects
from storage.standing import read_standing
from workers.micro.plan import why_nothing_due
from workers.micro.prospect import is_below_mark, prospect_of, tokens_until_due
from workers.settings import CompressionSettings


def ruled_out(database: Database, key: int, settings: CompressionSettings) -> tuple[bool, bool]:
    """Whether sums or the mark that earlier ones left rule a micro pass out, and whether the rows
    do."""
    with database.read() as connection:
        standing = read_standing(connection, database, key)
        enough = settings.micro_compact_min_tokens
        prospect = read_prospects(connection, [key], enough=enough)[key]
        session = standing.session
        view = messages.read_view(connection, key)
        known = prospect_of(view, cursor=standing.cursor, enough=enough)
        assert known == replace(prospect, marker=0)
        by_sums = tokens_until_due(prospect, session, settings) > 0
        by_sums |= is_below_mark(session, settings)
        return by_sums, why_nothing_due(connection, standing, settings) is not None
