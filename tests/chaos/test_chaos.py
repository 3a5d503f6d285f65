"""The chaos suite in its short form; `make chaos` plays the long one."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos.campaign import run
from tests.chaos.form import Form, Kind
from tests.chaos.tally import Tally
from tests.support.servers.servers import PostgresServer, RedisServer
from tests.tiers import is_soak


def short_form(kind: Kind) -> Form:
    """Return a short run with a new seed each time: chance is the point. A failure shows it."""
    soak = is_soak()
    return Form(
        kind,
        seed=secrets.randbelow(10**6),
        turns=240 if soak else 100,
        kills=5 if soak else 2,
        sessions=24 if soak else 12,
        workers=2,
        pace=0.08,
        lease_seconds=5.0,
    )


def check(tally: Tally) -> None:
    Console(file=sys.stdout, width=100).print(tally.table())
    assert tally.faults == (), f"seed {tally.form.seed}"
    assert tally.done_to_it["kills of workers"] >= tally.form.kills
    assert tally.it_did["passes"] > 0


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("chaos")
def test_nothing_is_lost_doubled_or_left_undone_on_postgresql_and_redis(
    own_redis: RedisServer, own_postgres: PostgresServer, tmp_path: Path
) -> None:
    form = short_form(Kind.POSTGRESQL)
    check(run(form, tmp_path, redis=own_redis, postgres=own_postgres))


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("chaos")
def test_nothing_is_lost_doubled_or_left_undone_on_sqlite_without_a_broker(tmp_path: Path) -> None:
    check(run(short_form(Kind.SQLITE), tmp_path))
