"""The index is kept up, found broken, made anew, and nothing else waits or fails for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text as sql

from storage import migrate, search
from storage.engine import Database, open_database
from storage.search import SUMMARY, RebuildOvertaken, generations, indexing
from storage.search.discovering import BROKEN
from storage.search.generations import GenerationState
from tests.support.sessions.searching import find, indexed, positions, said, talk
from tests.support.sessions.stored_session import StoredSession

pytestmark = pytest.mark.both_databases


def waiting(database: Database) -> list[int]:
    with database.read() as connection:
        return list(
            connection.execute(sql("SELECT number FROM search_pending ORDER BY number")).scalars()
        )


def documents(database: Database) -> int:
    with database.read() as connection:
        searched = generations.searched(connection)
        assert searched is not None
        return searched.index(connection).count(connection)


def states(database: Database) -> list[GenerationState]:
    with database.read() as connection:
        return [one.state for one in generations.read_generations(connection)]


def damage_blocks(database: Database) -> None:
    """Overwrite what FTS5 has on disk, as a failing disk does."""
    with database.write() as connection:
        number = generations.read_generations(connection)[-1].number
        connection.execute(
            sql(f"UPDATE search_words_{number}_data SET block = x'ff00ff00ff00ff00' WHERE id > 10")
        )


def drop_tables(database: Database) -> None:
    with database.write() as connection:
        generation = generations.read_generations(connection)[-1]
        generation.index(connection).drop(connection)


def lose_documents(database: Database) -> None:
    with database.write() as connection:
        generation = generations.read_generations(connection)[-1]
        index = generation.index(connection)
        index.create(connection)
        index.complete(connection)


DAMAGES: dict[str, Callable[[Database], None]] = {
    "tables are gone": drop_tables,
    "documents are gone": lose_documents,
    "blocks are damaged": damage_blocks,
}


def test_a_new_row_waits_for_its_index_and_changed_flags_do_not(database: Database) -> None:
    session = StoredSession.create(database)
    session.append(said(["one quail", "two quail", "three quail", "four"]))
    assert len(waiting(database)) == 4
    indexed(database)
    assert waiting(database) == []
    held = documents(database)
    for _ in range(3):
        rows = [row for row in session.view() if row.role == "assistant"]
        summary = session.absorb(rows, "summary")
        assert waiting(database) == [-summary]
        indexed(database)
        session.undo()
        assert waiting(database) == []
    session.rewind(2)
    assert waiting(database) == []
    assert documents(database) == held + 3


def test_rows_that_other_programs_insert_are_found_too(database: Database) -> None:
    session = StoredSession.create(database)
    with database.write() as connection:
        connection.execute(
            sql(
                "INSERT INTO messages (session_key, position, role, tokens, content, created_at)"
                " VALUES (:key, 0, 'user', 1, 'imported dodo', 5)"
            ),
            {"key": session.key},
        )
    assert positions(database, "dodo") == [0]
    indexed(database)
    assert positions(database, "dodo") == [0]


def test_indexing_twice_at_once_indexes_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = StoredSession.create(database)
    session.append(said(["one quail", "two quail"]))
    write = indexing._write

    def overtaken(*given: Any) -> bool:
        monkeypatch.setattr(indexing, "_write", write)
        indexed(database)
        return write(*given)

    monkeypatch.setattr(indexing, "_write", overtaken)
    indexed(database)
    assert documents(database) == 2
    assert set(positions(database, "quail")) == {0, 1}


def test_a_rebuild_makes_the_same_index_and_drops_the_old_one(database: Database) -> None:
    session = talk(database, "one quail", "two quail", "three 鹌鹑", "four")
    session.absorb([row for row in session.view() if row.position == 1], "quail summary")
    indexed(database)
    before = find(database, "quail 鹌鹑")
    with database.write() as connection:
        connection.execute(
            sql("INSERT INTO search_pending SELECT id FROM messages WHERE kind = :kind"),
            {"kind": "message"},
        )
    progress: list[tuple[int, int]] = []
    rebuilt = search.rebuild(database, page=2, progress=lambda *rows: progress.append(rows))
    assert (rebuilt.messages, rebuilt.summaries) == (4, 1)
    assert progress[-1] == (5, 5)
    assert find(database, "quail 鹌鹑") == before
    assert states(database) == [GenerationState.SERVING]
    assert documents(database) == 5
    assert waiting(database) == []
    with database.read() as connection:
        names = "SELECT count(*) FROM {} WHERE {} LIKE 'search\\_%\\_1' ESCAPE '\\'"
        table = (
            names.format("sqlite_master", "name")
            if database.dialect == "sqlite"
            else names.format("pg_tables", "tablename")
        )
        assert connection.execute(sql(table)).scalar_one() == 0


def test_turns_are_stored_and_searched_while_an_index_is_built(database: Database) -> None:
    session = talk(database, *[f"quail {at}" for at in range(10)])
    found: list[set[int | str]] = []

    def meanwhile(_done: int, _total: int) -> None:
        (place,) = session.append(said([f"quail during {len(found)}"]))
        if len(found) % 2:
            indexed(database)
        found.append(set(positions(database, "quail")))
        assert place in found[-1]

    search.rebuild(database, page=3, progress=meanwhile)
    assert found[0] == set(range(11))
    count = session.record().next_position
    assert set(positions(database, "quail")) == set(range(count))
    indexed(database)
    assert set(positions(database, "quail")) == set(range(count))
    assert documents(database) == count


def test_a_rebuild_that_was_cut_off_is_no_hindrance(database: Database) -> None:
    talk(database, *[f"quail {at}" for at in range(6)])

    def cut(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.rebuild(database, page=2, progress=cut)
    assert states(database) == [GenerationState.SERVING, GenerationState.BUILDING]
    building = search.check(database).building
    assert building is not None
    assert 0 < building < 1
    assert len(positions(database, "quail")) == 6
    search.rebuild(database)
    assert states(database) == [GenerationState.SERVING]
    assert len(positions(database, "quail")) == 6


def test_of_two_rebuilds_the_later_one_goes_on(database: Database) -> None:
    talk(database, *[f"quail {at}" for at in range(6)])

    def overtake(_done: int, _total: int) -> None:
        search.rebuild(database)

    with pytest.raises(RebuildOvertaken):
        search.rebuild(database, page=2, progress=overtake)
    assert states(database) == [GenerationState.SERVING]
    assert len(positions(database, "quail")) == 6


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_index_fails_no_write_and_is_found_out_and_rebuilt(
    database: Database, how: str
) -> None:
    if how == "blocks are damaged" and database.dialect == "postgresql":
        how = "tables are gone"
    session = talk(database, *[f"quail number {at}" for at in range(40)])
    assert search.check(database).fault is None
    DAMAGES[how](database)

    session.append(said(["a new quail"]))
    health = search.check(database)
    assert health.fault is not None
    assert states(database) == [GenerationState.BROKEN]
    found = find(database, "quail")
    assert len(found.hits) == 41
    assert found.notes == (BROKEN,)
    assert search.index_pending(database).rows == 0 or not waiting(database)

    search.rebuild(database)
    assert search.check(database).fault is None
    found = find(database, "quail")
    assert (len(found.hits), found.notes) == (41, ())


@pytest.mark.parametrize("how", ["tables are gone", "blocks are damaged"])
def test_a_search_that_meets_a_damaged_index_answers_and_notes_it(
    database: Database, how: str
) -> None:
    if how == "blocks are damaged" and database.dialect == "postgresql":
        how = "tables are gone"
    talk(database, *[f"quail number {at}" for at in range(40)])
    DAMAGES[how](database)
    found = find(database, "quail")
    assert len(found.hits) == 40
    assert found.notes == (BROKEN,)
    assert search.check(database).fault == "a search of it failed"


def test_indexing_that_meets_a_damaged_index_keeps_what_waits(database: Database) -> None:
    session = talk(database, *[f"quail number {at}" for at in range(40)])
    drop_tables(database)
    session.append(said(["a new quail"]))
    assert search.index_pending(database) == search.Indexed(0, more=True)
    assert states(database) == [GenerationState.BROKEN]
    assert len(find(database, "quail").hits) == 41


def test_an_index_of_other_rules_is_reported(database: Database) -> None:
    talk(database, "quail")
    with database.write() as connection:
        connection.execute(sql("UPDATE search_generations SET rules = 'older'"))
    assert search.check(database).outdated
    search.rebuild(database)
    assert not search.check(database).outdated


def test_lost_triggers_are_found_out_and_made_again(database_url: str) -> None:
    database = open_database(database_url)
    migrate.upgrade(database)
    assert search.check(database).fault is None
    with database.write() as connection:
        table = " ON messages" if database.dialect == "postgresql" else ""
        connection.execute(sql(f"DROP TRIGGER search_message_added{table}"))
    StoredSession.create(database).append(said(["an unnoted quail"]))
    assert "triggers" in str(search.check(database).fault)
    search.rebuild(database)
    assert search.check(database).fault is None
    assert positions(database, "quail") == [0]
    database.close()


def test_a_check_says_what_it_has_seen(database: Database) -> None:
    health = search.check(database)
    assert (health.exists, health.fault, health.waiting) == (False, None, 0)
    session = talk(database, "one quail", "two")
    session.absorb([row for row in session.view() if row.position == 1], "summary")
    health = search.check(database)
    assert (health.exists, health.fault, health.waiting, health.documents) == (True, None, 1, 2)
    assert health.read_whole


def test_pieces_of_words_are_found_without_trigrams_too(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL does not always have pg_trgm: then the newest messages are looked through."""
    monkeypatch.setattr(generations, "install_trigrams", lambda _connection: False)
    monkeypatch.setattr(generations, "has_trigrams", lambda _connection: False)
    talk(database, "the quailery 100%_sure", "nothing here")
    assert positions(database, "ailer") == [0]
    assert positions(database, "0%_su") == [0]
    assert positions(database, "0x_su") == []
    assert search.check(database).has_pieces == (database.dialect == "sqlite")


def test_a_summary_of_a_defrag_is_indexed_by_its_own_number(database: Database) -> None:
    session = talk(database, "one", "two quail")
    session.absorb([row for row in session.view() if row.position == 1], "first")
    indexed(database)
    session.defrag("second quail")
    assert set(positions(database, "quail")) == {1, SUMMARY}
    indexed(database)
    assert set(positions(database, "quail")) == {1, SUMMARY}
