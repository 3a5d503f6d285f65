"""Old sessions come in once, whole, and with every row accounted for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from producers import Gateway
from producers.importing import Account, Fate, ImportRefused, Terms, import_file
from storage import audit, bulk_runs
from storage.audit import Which
from storage.bulk_runs import Filters
from storage.conversations import sessions, summaries
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind
from storage.engine import Database
from tests.support.model.validity import check_view
from tests.support.observing.interrupting import Interrupting
from tests.support.sessions.conversations import SESSION_FILES, data_lines, turn
from tests.support.sessions.gateways import assistant, rows_of, user
from tests.support.sessions.hermes_state import PREFIX, START, SUFFIX, HermesState
from tests.support.sessions.stored_session import StoredSession
from tests.support.workers.workplace import Killed
from workers.conversation.markers import frame
from workers.rendering import Dialect, render


def terms(**more: Any) -> Terms:
    return Terms(owner="o", actor="ada@host", undated_ms=1_700_000_000_000, **more)


def brought_in(database: Database, path: Path, **more: Any) -> Account:
    account = Account()
    import_file(database, path, terms(**more), account, lambda _done, _of: None)
    assert account.unaccounted == 0
    return account


def lines(path: Path, *sessions_: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in sessions_), encoding="utf-8")
    return path


def found(database: Database, session_id: str) -> SessionRecord:
    with database.read() as connection:
        record = sessions.find(connection, owner="o", session_id=session_id)
    assert record is not None
    return record


def stored(database: Database, session_id: str) -> StoredSession:
    return StoredSession(database, found(database, session_id).key)


def view(database: Database, session_id: str) -> list[Any]:
    """Return the contents of the live view; a marker as its summary."""
    rows = stored(database, session_id).view()
    return [row.summary if row.message is None else row.message["content"] for row in rows]


CHAT = [
    {"role": "system", "content": "Be brief."},
    user("Where?"),
    assistant("By the river."),
    user("When?"),
    assistant("At noon."),
]


# --- chat lines ------------------------------------------------------------------------------


def test_a_transcript_comes_back_as_it_was_without_its_system_prompt(
    database: Database, tmp_path: Path
) -> None:
    account = brought_in(database, lines(tmp_path / "a.jsonl", {"id": "a", "messages": CHAT}))
    assert account.read == 5
    assert account.fates == {Fate.LIVE: 4, Fate.SYSTEM_PROMPT: 1}
    record = found(database, "a")
    assert (record.turns, record.live_messages, record.turn_open) == (2, 4, False)
    assert record.started_at == record.active_at == 1_700_000_000_000
    session = stored(database, "a")
    assert [row.message for row in session.view()] == CHAT[1:]
    assert session.counted() == session.live_rows()
    with database.read() as connection:
        assert sessions.read_prompt(connection, record.key) == "Be brief."
        (entry,) = audit.page(connection, Which())
    assert (entry.action, entry.session, entry.actor) == ("imported", "a", "ada@host")


def test_importing_again_changes_nothing_and_counts_every_row_as_known(
    database: Database, tmp_path: Path
) -> None:
    path = lines(tmp_path / "a.jsonl", {"id": "a", "messages": CHAT})
    brought_in(database, path)
    before = rows_of(database, "SELECT * FROM messages")
    again = brought_in(database, path)
    assert again.fates == {Fate.KNOWN: 5}
    assert again.sessions == {"unchanged": 1}
    assert rows_of(database, "SELECT * FROM messages") == before


def test_rows_that_were_added_since_are_added(database: Database, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"id": "a", "messages": CHAT[:3]})
    brought_in(database, path)
    again = brought_in(database, lines(path, {"id": "a", "messages": CHAT}))
    assert again.fates == {Fate.KNOWN: 3, Fate.LIVE: 2}
    assert again.sessions == {"grown": 1}
    session = stored(database, "a")
    assert [row.message for row in session.view()] == CHAT[1:]
    assert session.counted() == session.live_rows()
    assert found(database, "a").turns == 2


@pytest.mark.parametrize("change", ["others", "fewer"])
def test_a_session_whose_rows_are_others_now_is_named_and_left_alone(
    database: Database, tmp_path: Path, change: str
) -> None:
    path = lines(tmp_path / "a.jsonl", {"id": "a", "messages": CHAT})
    brought_in(database, path)
    now = CHAT[:2] if change == "fewer" else [*CHAT[:2], assistant("By the sea."), *CHAT[3:]]
    again = brought_in(database, lines(path, {"id": "a", "messages": now}))
    assert again.sessions == {"clash": 1}
    assert "others" in again.problems[0].problem
    assert view(database, "a") == [one["content"] for one in CHAT[1:]]


def test_a_session_that_a_gateway_made_is_never_written_to(
    database: Database, gateway: Gateway, tmp_path: Path
) -> None:
    gateway.open_session("a", owner="o")
    again = brought_in(database, lines(tmp_path / "a.jsonl", {"id": "a", "messages": CHAT}))
    assert again.sessions == {"clash": 1}
    assert again.fates[Fate.REFUSED] == 5
    assert found(database, "a").live_messages == 0


def test_a_summary_of_ours_in_a_transcript_is_one_again(database: Database, tmp_path: Path) -> None:
    framed = user(frame("They agreed on the river."))
    path = lines(tmp_path / "a.jsonl", {"id": "a", "messages": [framed, *CHAT[1:]]})
    account = brought_in(database, path)
    assert account.fates == {Fate.SUMMARY: 1, Fate.LIVE: 4}
    assert view(database, "a")[0] == "They agreed on the river."
    session = stored(database, "a")
    assert session.counted() == session.live_rows()
    undone = session.undo()
    assert undone is not None
    assert undone.kind is SummaryKind.BATCH
    assert session.counted() == session.live_rows()


BAD: Sequence[tuple[str, str]] = [
    ('{"id": "b", "messages": [{"role": "user"}]}', "content: is missing"),
    ('{"id": "b", "messages": [{"role": "robot", "content": "x"}]}', "unknown role"),
    ('{"id": "b", "messages": ["x"]}', "is a str"),
    ('{"id": "b"}', "holds no list"),
    ("{nonsense", "is no JSON"),
    ('{"id": 7, "messages": []}', "an id that is no text"),
]


@pytest.mark.parametrize(("line", "expected"), BAD)
def test_what_is_bad_is_named_and_ends_the_import_unless_it_is_to_be_skipped(
    database: Database, tmp_path: Path, line: str, expected: str
) -> None:
    path = tmp_path / "a.jsonl"
    good = [json.dumps({"id": name, "messages": CHAT}) for name in "ac"]
    path.write_text("\n".join([good[0], line, good[1]]), encoding="utf-8")
    with pytest.raises(ImportRefused, match="line 2") as refused:
        brought_in(database, path)
    assert expected in str(refused.value)
    assert rows_of(database, "SELECT id FROM sessions") == [("a",)]
    account = brought_in(database, path, skip_bad=True)
    assert account.fates[Fate.BAD] == 1
    assert expected in account.problems[0].problem
    names = {row[0] for row in rows_of(database, "SELECT id FROM sessions")}
    assert {"a", "c"} <= names


def test_nothing_of_an_import_is_due_by_itself(database: Database, tmp_path: Path) -> None:
    brought_in(database, lines(tmp_path / "a.jsonl", {"id": "a", "messages": CHAT}))
    assert rows_of(database, "SELECT count(*) FROM jobs") == [(0,)]
    assert rows_of(database, "SELECT turns - decided_turns, idle_since FROM sessions") == [
        (0, None)
    ]
    with database.read() as connection:
        old = bulk_runs.chosen(connection, database, Filters(older_ms=86_400_000), owner="o")
    assert len(old) == 1


@pytest.mark.parametrize("name", SESSION_FILES)
def test_real_transcripts_come_in_whole_and_again_not_at_all(
    database: Database, tmp_path: Path, name: str
) -> None:
    wanted = list(islice(data_lines(name), 12))
    few = tmp_path / f"{name}.jsonl"
    few.write_text("".join(wanted), encoding="utf-8")
    account = brought_in(database, few)
    documents = [json.loads(line) for line in wanted]
    assert account.read == sum(len(one["messages"]) for one in documents)
    assert account.sessions == {"new": len(documents)}
    for one in documents:
        session = stored(database, one["id"])
        rows = session.view()
        kept = one["messages"][one["messages"][0]["role"] == "system" :]
        assert [row.message for row in rows] == kept
        assert session.counted() == session.live_rows()
        check_view(render(rows, Dialect.OPENAI), Dialect.OPENAI)
    assert brought_in(database, few).sessions == {"unchanged": len(documents)}


@pytest.mark.parametrize("point", range(1, 10))
def test_an_import_that_is_broken_off_anywhere_goes_on_where_it_was(
    database: Database, tmp_path: Path, point: int
) -> None:
    path = lines(tmp_path / "a.jsonl", *({"id": f"s{n}", "messages": CHAT} for n in range(3)))
    with pytest.raises(Killed):
        brought_in(Interrupting.of(database, point), path)
    brought_in(database, path)
    assert rows_of(database, "SELECT count(*), count(DISTINCT id) FROM sessions") == [(3, 3)]
    assert rows_of(database, "SELECT count(*) FROM messages") == [(12,)]


# --- Hermes Agent ----------------------------------------------------------------------------


@pytest.fixture
def hermes(tmp_path: Path) -> Iterator[HermesState]:
    state = HermesState(tmp_path / "state.db")
    yield state
    state.close()


def talk(hermes: HermesState, session_id: str, turns: int) -> list[tuple[dict[str, Any], float]]:
    """Turns of the airline desk: messages with their times."""
    messages = [
        (message, float(100 * number + place))
        for number in range(turns)
        for place, message in enumerate(turn(number))
    ]
    for message, at in messages:
        hermes.append(session_id, message, at=at)
    return messages


def summary(text: str) -> dict[str, Any]:
    return user(f"{PREFIX}{text}{SUFFIX}")


def test_what_a_compaction_there_archived_stays_archived_under_its_summary(
    database: Database, hermes: HermesState
) -> None:
    hermes.session("h", prompt="Be brief.", title="Flights", model="m", chat_id="7")
    messages = talk(hermes, "h", 6)
    kept = messages[16:]
    hermes.compact("h", [(summary("Four bookings."), 399.5), *kept])
    account = brought_in(database, hermes.path)
    assert account.read == hermes.rows()
    assert account.fates == {
        Fate.ARCHIVED: 16,
        Fate.LIVE: len(kept),
        Fate.COPY: len(kept),
        Fate.SUMMARY: 1,
    }
    assert view(database, "h") == ["Four bookings.", *(one["content"] for one, _ in kept)]
    record = found(database, "h")
    assert (record.source, record.title, record.model) == ("telegram", "Flights", "m")
    assert (record.chat_id, record.turns) == ("7", 6)
    assert record.started_at == int(START * 1000)
    session = stored(database, "h")
    assert session.counted() == session.live_rows()
    with database.read() as connection:
        (shown,) = summaries.all_live(connection, record.key)
        assert sessions.read_prompt(connection, record.key) == "Be brief."
    assert (shown.kind, shown.first_position, shown.last_position) == (SummaryKind.BATCH, 0, 15)
    session.undo()
    assert [row.message for row in session.view()] == [message for message, _ in messages]
    assert session.counted() == session.live_rows()


def test_many_generations_of_copies_are_one_original_each(
    database: Database, hermes: HermesState
) -> None:
    hermes.session("h")
    messages = talk(hermes, "h", 6)
    for number in (1, 2, 3):
        live = messages[4 * number :]
        hermes.compact("h", [(summary(f"Version {number}."), 100.0 * number - 0.5), *live])
    account = brought_in(database, hermes.path)
    assert account.read == hermes.rows() == 24 + (1 + 20) + (1 + 16) + (1 + 12)
    assert account.fates == {
        Fate.ARCHIVED: 12,
        Fate.LIVE: 12,
        Fate.COPY: 48,
        Fate.SUMMARY: 1,
        Fate.OLD_SUMMARY: 2,
    }
    assert view(database, "h")[0] == "Version 3."


def test_a_tool_result_that_was_shortened_there_comes_in_full(
    database: Database, hermes: HermesState
) -> None:
    hermes.session("h")
    messages = talk(hermes, "h", 2)
    place = next(i for i, (message, _) in enumerate(messages) if message["role"] == "tool")
    short = {**messages[place][0], "content": "[search] 12 lines"}
    hermes.compact("h", [*messages[:place], (short, messages[place][1]), *messages[place + 1 :]])
    account = brought_in(database, hermes.path)
    assert account.fates == {Fate.LIVE: 8, Fate.COPY: 8}
    assert [row.message for row in stored(database, "h").view()] == [one for one, _ in messages]


def test_a_summary_that_was_written_into_a_message_there_leaves_the_message_alone(
    database: Database, hermes: HermesState
) -> None:
    hermes.session("h")
    messages = talk(hermes, "h", 3)
    first, at = messages[4]
    mixed = {
        **first,
        "content": f"[PRIOR CONTEXT below]\n{first['content']}\n[END OF PRIOR CONTEXT]\n\n"
        f"{PREFIX}One booking.{SUFFIX}",
    }
    hermes.compact("h", [(mixed, at), *messages[5:]])
    account = brought_in(database, hermes.path)
    assert account.fates[Fate.SUMMARY] == 1
    shown = view(database, "h")
    assert shown == ["One booking.", *(one["content"] for one, _ in messages[4:])]


def test_rows_that_were_taken_back_there_are_left_out(
    database: Database, hermes: HermesState
) -> None:
    hermes.session("h")
    messages = talk(hermes, "h", 3)
    hermes.rewind("h", since=200.0)
    account = brought_in(database, hermes.path)
    assert account.fates == {Fate.LIVE: 8, Fate.REWOUND: 4}
    assert view(database, "h") == [one["content"] for one, _ in messages[:8]]


def test_archived_rows_that_no_summary_shows_are_live_again(
    database: Database, hermes: HermesState
) -> None:
    hermes.session("h")
    messages = talk(hermes, "h", 2)
    hermes.compact("h", messages[4:])
    account = brought_in(database, hermes.path)
    assert account.fates == {Fate.UNARCHIVED: 4, Fate.LIVE: 4, Fate.COPY: 4}
    assert len(view(database, "h")) == 8


def test_it_is_read_while_hermes_writes_and_what_comes_later_comes_in_later(
    database: Database, hermes: HermesState
) -> None:
    hermes.session("h")
    talk(hermes, "h", 1)
    hermes.begin()
    hermes.append("h", user("not committed yet"), at=500.0)
    account = brought_in(database, hermes.path)
    assert account.fates == {Fate.LIVE: 4}
    hermes.close()
    again = HermesState.__new__(HermesState)
    again.path = hermes.path
    again._connection = sqlite3.connect(hermes.path, isolation_level=None)
    again.append("h", user("and the return?"), at=600.0)
    account = brought_in(database, hermes.path)
    assert account.fates == {Fate.KNOWN: 4, Fate.LIVE: 1}
    assert view(database, "h")[-1] == "and the return?"
    again.close()


def test_nothing_is_written_to_the_file_of_hermes(database: Database, hermes: HermesState) -> None:
    hermes.session("h")
    talk(hermes, "h", 2)
    hermes.close()
    before = hermes.path.read_bytes()
    brought_in(database, hermes.path)
    assert hermes.path.read_bytes() == before


def test_two_open_sessions_of_one_chat_do_not_share_it(
    database: Database, hermes: HermesState
) -> None:
    for name in ("h1", "h2"):
        hermes.session(name, chat_id="7")
        talk(hermes, name, 1)
    hermes.session("h0", chat_id="7", ended_at=START + 9)
    brought_in(database, hermes.path)
    chats = {name: found(database, name).chat_id for name in ("h0", "h1", "h2")}
    assert chats == {"h0": None, "h1": "7", "h2": None}
    assert found(database, "h0").ended_at == int((START + 9) * 1000)


def test_an_export_of_hermes_is_read_as_its_table_is(database: Database, tmp_path: Path) -> None:
    messages = [
        {"id": 1, "role": "user", "content": f"{PREFIX}Before.{SUFFIX}", "timestamp": START},
        {"id": 2, "role": "user", "content": "When?", "timestamp": START + 1},
        {
            "id": 3,
            "role": "assistant",
            "content": None,
            "timestamp": START + 2,
            "tool_calls": '[{"id": "c", "type": "function", "function": {"name": "f"}}]',
        },
        {
            "id": 4,
            "role": "tool",
            "content": "noon",
            "tool_call_id": "c",
            "tool_name": "f",
            "timestamp": START + 3,
        },
    ]
    one = {
        "id": "e",
        "source": "discord",
        "user_id": "u",
        "started_at": START,
        "system_prompt": "Be brief.",
        "messages": messages,
    }
    account = brought_in(database, lines(tmp_path / "export.jsonl", one))
    assert account.fates == {Fate.SUMMARY: 1, Fate.LIVE: 3}
    rows = stored(database, "e").view()
    assert rows[0].summary == "Before."
    assert rows[2].calls == ("c",)
    assert rows[3].answers == ("c",)
    assert found(database, "e").source == "discord"


def test_another_sqlite_file_is_refused(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(ImportRefused, match=r"no state\.db"):
        brought_in(database, path)
