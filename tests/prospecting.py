"""What sums say of a session against what its rows say."""

from __future__ import annotations

from storage.engine import Database
from storage.prospects import read_prospects
from workers.compression_settings import CompressionSettings
from workers.micro.plan import Situation, why_nothing_due
from workers.micro.prospect import is_ruled_out


def ruled_out(database: Database, key: int, settings: CompressionSettings) -> tuple[bool, bool]:
    """Whether sums rule a micro pass out, and whether the rows do."""
    with database.read() as connection:
        situation = Situation.read(connection, database, key)
        enough = settings.micro_compact_min_tokens
        prospect = read_prospects(connection, [key], enough=enough)[key]
        by_sums = is_ruled_out(prospect, situation.session, settings)
        return by_sums, why_nothing_due(connection, situation, settings) is not None
