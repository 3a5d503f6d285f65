"""Ages as people write them: `90d`, `12h`, `30m`."""

from __future__ import annotations

import re

from sqlalchemy import Connection, select

from afterturn.exits import CommandError, Exit
from storage.engine import Database

_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def age_ms(text: str, option: str) -> int:
    """Milliseconds of an age such as `90d`; raises `CommandError` that names `option`."""
    found = re.fullmatch(r"(\d{1,6})\s*([smhdw])", text.strip().lower())
    if found is None:
        raise CommandError(
            f"{option} {text!r} is no age; write a number and s, m, h, d or w, such as 90d",
            Exit.USAGE,
        )
    return int(found[1]) * _UNITS[found[2]]


def moment_before(connection: Connection, database: Database, ms: int) -> int:
    """The time that was `ms` milliseconds ago, by the database's clock."""
    now: int = connection.execute(select(database.now())).scalar_one()
    return now - ms
