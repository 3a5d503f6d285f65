"""A search reads its index and the rows that it names, never a table from end to end."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, text

from storage import search
from storage.engine import Database
from storage.search import Scope, candidates, generations, surroundings
from storage.search.documents import Place, number_of
from storage.search.query import clauses_of, parse
from tests.support.observing.query_plans import plan_of

pytestmark = pytest.mark.both_databases

NUMBERS = (
    "WITH RECURSIVE numbers (n) AS"
    " (SELECT CAST(0 AS bigint) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {})"
)
FILL = (
    "INSERT INTO sessions (owner, id, source, started_at, active_at, next_position)"
    f" {NUMBERS.format(400)} SELECT 'o' || (n % 7), 's' || n, 'cli', n, n, 50 FROM numbers",
    "INSERT INTO messages (session_key, position, role, opens_turn, tokens, content, created_at)"
    f" {NUMBERS.format(8_000)} SELECT (SELECT min(key) FROM sessions) + n / 20, n % 20, 'user', 1,"
    " 5, 'common words and word' || (n % 900), n FROM numbers",
    "INSERT INTO summaries (session_key, kind, status, text, tokens, first_position,"
    " last_position, cursor_before, template, model, created_at)"
    f" {NUMBERS.format(800)} SELECT (SELECT min(key) FROM sessions) + n % 400, 'micro',"
    " CASE WHEN n < 400 THEN 'live' ELSE 'superseded' END, 'common summary', 5, 0, 9, 0, 't', 'm',"
    " n FROM numbers",
)
SMALL = {"pg_extension", "search_generations"}
"""Tables of a few rows, whatever the archive's size."""

SCOPE = Scope("o3", since=5, roles=("user", "summary"))
NEWEST = (number_of(Place(10**7)), number_of(Place(10**7, is_summary=True)))


@pytest.fixture
def archive(database: Database) -> Database:
    """Eight thousand messages, indexed, with a hundred that wait, and statistics of them."""
    with database.write() as connection:
        for statement in FILL:
            connection.execute(text(statement))
    search.rebuild(database, page=5_000)
    with database.write() as connection:
        connection.execute(
            text("INSERT INTO search_pending SELECT id FROM messages ORDER BY id DESC LIMIT 100")
        )
        connection.execute(text("ANALYZE"))
    return database


def test_lists_are_read_from_the_index(archive: Database) -> None:
    clauses = clauses_of(parse('common word7 "and word8" wor* NOT word5'))

    def ask(connection: Connection) -> object:
        generation = generations.searched(connection)
        assert generation is not None
        return generation.index(connection).find(
            connection, clauses, SCOPE, newest=NEWEST, limit=100
        )

    plan = plan_of(archive, ask)
    assert plan.scanned <= SMALL, plan.text
    if archive.dialect == "postgresql":
        assert any(name.endswith("_words") for name in plan.indexes), plan.text
        assert "messages_pkey" in plan.indexes
    else:
        assert "VIRTUAL TABLE INDEX" in plan.text


def test_pieces_of_words_are_found_by_the_index(archive: Database) -> None:
    def ask(connection: Connection) -> object:
        generation = generations.searched(connection)
        assert generation is not None
        return generation.index(connection).find_pieces(
            connection, "ord77", SCOPE, newest=NEWEST, limit=100
        )

    assert plan_of(archive, ask).scanned <= SMALL


def test_what_waits_is_read_by_its_numbers(archive: Database) -> None:
    def ask(connection: Connection) -> object:
        return candidates.not_indexed(connection, SCOPE, (10**7, 10**7))

    plan = plan_of(archive, ask)
    assert "messages" not in plan.scanned, plan.text


def test_what_is_around_a_hit_is_read_by_position(archive: Database) -> None:
    def ask(connection: Connection) -> object:
        key = connection.execute(text("SELECT min(key) FROM sessions")).scalar_one()
        return surroundings.lines_around(connection, key, 20, 5, 5)

    plan = plan_of(archive, ask)
    assert "messages" not in plan.scanned, plan.text
    assert "uq_messages_position" in plan.indexes


def test_the_filled_archive_can_be_browsed_and_searched(archive: Database) -> None:
    found = surroundings.browse(archive, Scope("o3"), limit=3)
    assert [one.messages for one in found.sessions] == [20, 20, 20]
    assert search.discover(archive, "common", Scope("o3"), limit=10).hits
