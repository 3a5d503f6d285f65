"""`status`, `runs`, `report`, `audit`, `import` and `recompact` on a database with some history."""

from __future__ import annotations

import json
import re
import signal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from afterturn.exits import Exit
from producers import Gateway
from storage import audit, jobs
from storage.audit import AuditAction
from storage.conversations import sessions
from storage.engine import Database
from storage.jobs import JobKind
from tests.support.observing.waiting import bound
from tests.support.programs.command_line import invoke
from tests.support.programs.processes import Processes
from tests.support.sessions.gateways import rows_of, url_of
from tests.support.sessions.stored_jobs import Worker
from tests.support.sessions.stored_session import StoredSession
from tests.support.workers.workplace import desk
from workers.runtime.context import WorkerContext
from workers.runtime.jobs import Worked, work_next
from workers.scans.reconcile import reconcile
from workers.settings import SettingsSource, load_settings
from workers.summariser.extractive.local import LocalSummariser

SETTINGS = """
compression: {protect_last_n: 8, threshold_tokens: 4000}
prices:
  currency: EUR
  models:
    m: {input: 2.0, cached_input: 0.5, output: 8}
    local: {input: 0}
"""


@pytest.fixture
def database(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Database:
    """Return a database that commands of this process find, with settings of the test's."""
    monkeypatch.setenv("DATABASE_URL", url_of(database))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    monkeypatch.setenv("AFTERTURN_CONFIG", str(tmp_path / "settings.yaml"))
    return database


@pytest.fixture
def context(database: Database) -> WorkerContext:
    return WorkerContext(database, SettingsSource.fixed(load_settings()), LocalSummariser())


def work_off(context: WorkerContext) -> None:
    while due := reconcile(context):
        notifications = list(due)
        while notifications:
            done = work_next(context, notifications.pop(0).id)
            if isinstance(done, Worked):
                notifications.extend(done.due)


def compacted(context: WorkerContext, session_id: str = "old", **facts: Any) -> StoredSession:
    """Return a session of the airline desk that was compacted because a person asked."""
    session = desk(context.database, session_id=session_id, owner="local", **facts)
    with Gateway(
        context.settings.current(), database=context.database, actor="ada@host"
    ) as gateway:
        gateway.compact(session_id)
    work_off(context)
    return session


# --- status ----------------------------------------------------------------------------------


def test_status_shows_what_is_up_and_what_is_stuck(
    database: Database, context: WorkerContext
) -> None:
    seen = invoke("status", "--json")
    assert seen.code == Exit.FAILED
    found = {one["check"]: one for one in seen.document["findings"]}
    assert found["schedule"]["status"] == "warn"
    assert found["database"]["status"] == found["jobs"]["status"] == "ok"
    compacted(context)
    worker = Worker(database)
    stuck = desk(database, session_id="stuck")
    worker.dead_letter(worker.take(stuck.enqueue(JobKind.MICRO, queue="micro")))
    shown = invoke("status")
    assert shown.code == Exit.FAILED
    for words in ("1 compacted", "1 job given up", "afterturn dead list", "recompact", "last hour"):
        assert words in shown.out
    document = invoke("status", "--json").document
    assert document["sessions"]["sessions"] == 2
    assert document["last_hour"]["outcomes"] == {"compacted": 1}


# --- runs ------------------------------------------------------------------------------------


def test_runs_are_listed_of_one_session_or_of_all_and_by_outcome(
    context: WorkerContext,
) -> None:
    compacted(context, "a")
    compacted(context, "b")
    found = invoke("runs", "--json").document["runs"]
    assert [(one["session"], one["outcome"], one["trigger"]) for one in found] == [
        ("a", "compacted", "manual"),
        ("b", "compacted", "manual"),
    ]
    assert found[0]["tokens_before"] > found[0]["tokens_after"]
    (one,) = invoke("runs", "b", "--json").document["runs"]
    assert one["session"] == "b"
    assert invoke("runs", "--failed", "--json").document["runs"] == []
    assert invoke("runs", "--kind", "micro", "--json").document["runs"] == []
    assert len(invoke("runs", "--since", "1h", "--json").document["runs"]) == 2
    before = str(found[-1]["id"])
    assert len(invoke("runs", "--before", before, "--json").document["runs"]) == 1
    assert "a person" in invoke("runs").out
    assert invoke("runs", "nobody").code == Exit.NOT_FOUND
    assert invoke("runs", "--since", "soon").code == Exit.USAGE


def test_runs_of_other_owners_are_shown_only_when_they_are_asked_for(
    context: WorkerContext,
) -> None:
    session = desk(context.database, session_id="theirs", owner="eve")
    with Gateway(context.settings.current(), owner="eve", database=context.database) as gateway:
        gateway.compact("theirs")
    work_off(context)
    assert session.record().passes == 1
    assert invoke("runs", "--json").document["runs"] == []
    assert len(invoke("runs", "--all-owners", "--json").document["runs"]) == 1
    assert invoke("audit", "--json").document["entries"] == []
    assert invoke("report", "--json").document["sessions"] == 0


# --- audit -----------------------------------------------------------------------------------


def test_who_asked_who_did_it_and_who_took_it_back_are_in_the_trail(
    database: Database, context: WorkerContext
) -> None:
    session = compacted(context)
    assert invoke("undo", "old").code == Exit.OK
    with Gateway(
        context.settings.current(), database=database, actor="telegram gateway"
    ) as gateway:
        gateway.rewind("old")
    assert invoke("guards", "clear", "old").code == Exit.OK
    assert invoke("queues", "pause", "batch", "--reason", "an upgrade").code == Exit.OK
    assert invoke("queues", "resume", "batch").code == Exit.OK
    worker = Worker(database)
    dead = worker.take(session.enqueue(JobKind.MICRO, queue="micro"))
    worker.dead_letter(dead)
    assert invoke("dead", "drop", str(dead.job_id)).code == Exit.OK
    entries = invoke("audit", "--json").document["entries"]
    assert [one["action"] for one in entries] == [
        "compaction_asked",
        "compacted",
        "undone",
        "rewound",
        "guard_cleared",
        "queue_paused",
        "queue_resumed",
        "job_dropped",
    ]
    actors = {one["action"]: one["actor"] for one in entries}
    assert actors["compaction_asked"] == "ada@host"
    assert actors["compacted"].startswith("worker ")
    assert actors["rewound"] == "telegram gateway"
    assert actors["undone"].endswith("(command line)")
    shown = invoke("audit").out
    for words in ("took back summary", "cleared undone", "paused batch", "dropped dead job"):
        assert words in shown
    assert "an upgrade" not in shown
    (one,) = invoke("audit", "old", "--action", "undone", "--json").document["entries"]
    assert one["facts"]["rows_restored"] > 0
    assert invoke("audit", "--action", "undo").code == Exit.USAGE
    assert len(invoke("audit", "--actor", "telegram", "--json").document["entries"]) == 1


def test_every_act_has_words(database: Database) -> None:
    for action in AuditAction:
        with database.write() as connection:
            audit.record(connection, database, action, actor="a", owner="local")
    shown = invoke("audit", "--all", "--limit", "1000")
    assert shown.code == Exit.OK
    lines = shown.out.splitlines()
    assert len(lines) == len(AuditAction)
    assert not any("{" in line for line in lines)


def test_an_act_that_is_rolled_back_leaves_no_entry(database: Database) -> None:
    session = desk(database)
    with database.write() as connection:
        sessions.lock(connection, session.key)
        audit.record_of(connection, database, session.key, AuditAction.RESET, actor="a")
        connection.rollback()
    assert invoke("audit", "--all-owners", "--json").document["entries"] == []


# --- report ----------------------------------------------------------------------------------


class Links(HTMLParser):
    """What a page would fetch, and whether every element is closed."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe"):
            self.fetched.append(tag)
        self.fetched += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href")
        ]
        if tag not in self.VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID and not (self.open and self.open[-1] == tag):
            return
        if tag not in self.VOID:
            self.open.pop()


def test_a_report_shows_what_was_saved_and_writes_a_page_that_fetches_nothing(
    context: WorkerContext, tmp_path: Path
) -> None:
    session = compacted(context, title="<b>Flights & more</b>")
    session.append([{"role": "user", "content": "And?"}, {"role": "assistant", "content": "Yes."}])
    one = invoke("report", "old", "--json").document
    assert (one["passes"], one["batch_passes"], one["turns"]) == (1, 0, 17)
    assert len(one["points"]) == 17
    assert one["live_tokens"] == session.record().live_tokens
    assert one["money_saved"] is not None
    shown = invoke("report", "old").out
    for words in ("saved, net", "paid for itself", "EUR", "▄"):
        assert words in shown
    everything = invoke("report", "--json").document
    assert everything["sessions"] == 1
    assert everything["tokens_saved"] == one["tokens_saved"]
    for arguments in (["report", "old"], ["report"]):
        page = tmp_path / "page.html"
        assert invoke(*arguments, "--html", str(page)).code == Exit.OK
        text = page.read_text(encoding="utf-8")
        links = Links()
        links.feed(text)
        assert links.fetched == []
        assert links.open == []
        assert "&lt;b&gt;Flights" in text
        assert "<b>Flights" not in text
        assert "<svg" in text
        assert not re.search(r"https?://", text)
    assert invoke("report", "--html", str(tmp_path)).code == Exit.USAGE


def test_a_report_without_history_says_so(database: Database, tmp_path: Path) -> None:
    assert "had a pass yet" in invoke("report").err
    assert invoke("report", "--html", str(tmp_path / "page.html")).code == Exit.OK
    desk(database, owner="local", session_id="quiet")
    assert invoke("report", "quiet", "--html", str(tmp_path / "page.html")).code == Exit.OK


# --- recompact and import --------------------------------------------------------------------


def test_old_sessions_come_in_and_are_compacted_by_a_run(
    database: Database, context: WorkerContext, tmp_path: Path
) -> None:
    whole = [row.message for row in desk(database, session_id="model").view()]
    path = tmp_path / "old.jsonl"
    lines = [json.dumps({"id": f"i{number}", "messages": whole}) for number in range(3)]
    path.write_text("\n".join(lines), encoding="utf-8")
    imported = invoke("import", str(path), "--source", "archive", "--model", "m", "--json")
    assert imported.code == Exit.OK
    assert imported.document["rows"]["live"] == 3 * len(whole)
    assert imported.document["rows_unaccounted"] == 0
    look = invoke("recompact", "--source", "archive", "--dry-run")
    assert look.code == Exit.OK
    assert "3, " in look.out
    assert invoke("recompact", "list").err
    begun = invoke("recompact", "--source", "archive", "--yes", "--detach", "--json").document
    assert (begun["state"], begun["sessions"], begun["under_way"]) == ("running", 3, 2)
    assert invoke("recompact", "--yes").code == Exit.USAGE
    stopped = invoke("recompact", "stop", "--json").document
    assert (stopped["state"], stopped["waiting"]) == ("stopped", 3)
    assert invoke("recompact", "stop").code == Exit.USAGE
    assert "resume" in invoke("recompact", "show").out
    assert invoke("recompact", "resume", "--detach").code == Exit.OK
    work_off(context)
    done = invoke("recompact", "watch", "--json")
    assert done.code == Exit.OK
    assert done.document["outcomes"] == {"compacted": 3}
    assert done.document["tokens_saved"] > 0
    (run,) = invoke("recompact", "list", "--json").document["runs"]
    assert run["state"] == "done"
    assert invoke("recompact", "show", "99").code == Exit.NOT_FOUND
    shown = [one["action"] for one in invoke("audit", "--json").document["entries"]]
    assert shown.count("imported") == 3
    assert [one for one in shown if one.startswith("bulk")] == [
        "bulk_started",
        "bulk_stopped",
        "bulk_resumed",
        "bulk_ended",
    ]


def test_ctrl_c_stops_a_run_and_says_how_it_goes_on(
    database: Database, context: WorkerContext, processes: Processes, tmp_path: Path
) -> None:
    old = [desk(database, session_id=f"s{number}", owner="local") for number in range(3)]
    environment = {
        "DATABASE_URL": url_of(database),
        "AFTERTURN_CONFIG": str(tmp_path / "settings.yaml"),
    }
    child = processes.python("-m", "afterturn", "recompact", "--yes", env=environment)
    child.wait_for(": 0 of 3 sessions")
    child.send(signal.SIGINT)
    assert child.wait(bound(20)) == Exit.INTERRUPTED
    assert "afterturn recompact resume" in child.output
    assert "Traceback" not in child.output
    assert rows_of(database, "SELECT state FROM bulk_runs") == [("stopped",)]
    work_off(context)
    assert all(one.record().passes == 0 for one in old)


def test_a_run_whose_terminal_is_killed_goes_on_by_the_workers(
    database: Database, context: WorkerContext, processes: Processes, tmp_path: Path
) -> None:
    old = [desk(database, session_id=f"s{number}", owner="local") for number in range(3)]
    environment = {
        "DATABASE_URL": url_of(database),
        "AFTERTURN_CONFIG": str(tmp_path / "settings.yaml"),
    }
    child = processes.python("-m", "afterturn", "recompact", "--yes", env=environment)
    child.wait_for(": 0 of 3 sessions")
    child.kill()
    work_off(context)
    assert rows_of(database, "SELECT state FROM bulk_runs") == [("done",)]
    assert all(one.record().passes == 1 for one in old)


def test_nothing_begins_without_consent_or_while_compaction_is_off(
    database: Database, tmp_path: Path
) -> None:
    desk(database, owner="local")
    assert invoke("recompact").code == Exit.USAGE
    assert invoke("recompact", "--older-than", "long", "--dry-run").code == Exit.USAGE
    (tmp_path / "settings.yaml").write_text("compression: {enabled: false}")
    refused = invoke("recompact", "--yes")
    assert refused.code == Exit.CONFIGURATION
    assert "compression.enabled" in refused.err
    with database.read() as connection:
        assert not jobs.any_due(connection, database, again_after_ms=0)


def test_a_bad_line_ends_an_import_with_its_place_and_what_to_do(
    database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "a", "messages": [{"role": "user", "content": 7}]}', encoding="utf-8")
    refused = invoke("import", str(path))
    assert refused.code == Exit.USAGE
    assert "bad.jsonl, line 1, message 0: content" in refused.err
    skipped = invoke("import", str(path), "--skip-bad")
    assert skipped.code == Exit.FAILED
    assert "bad.jsonl, line 1, message 0" in skipped.out
    assert invoke("import", str(tmp_path / "none.jsonl")).code == Exit.USAGE
