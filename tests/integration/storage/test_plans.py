"""Statements that run all the time use the indexes that were made for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from sqlalchemy import Connection, text

from storage import (
    answers,
    attempts,
    audit,
    bulk_runs,
    guards,
    jobs,
    maintenance,
    measures,
    scheduling,
    signals,
)
from storage.audit import Which
from storage.conversations import cursors, events, messages, pruned, sessions, summaries, undo
from storage.conversations.cursors import CursorName
from storage.conversations.micro_reads import read_state, read_view
from storage.engine import Database
from storage.jobs import Claim, JobKind, backlog, dead_jobs, job_records
from storage.scheduling import Place
from tests.conftest import RUN
from tests.support.observing.query_plans import plan_of
from tests.support.servers.databases import fresh_database
from tests.support.sessions.gateways import migrated
from tests.support.sessions.stored_session import StoredSession, later

pytestmark = pytest.mark.both_databases

ARCHIVED = 20_000
LIVE_TURNS = 40
SESSIONS = 2000
OTHERS = 200
DONE_JOBS = 20_000
DUE_JOBS = 60
BACKLOG = 100
ATTEMPTS = 20_000
SIGNALS = 20_000
BULK_RUNS = 1_000
LONG_AGO_MS = 10**13
RUNNING_JOBS = 30
DEAD_JOBS = 50
BUSY = 1
"""Key of the session with a long past; keys of the others follow."""

# Numbers from 0 on, on both databases.
NUMBERS = (
    "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {})"
)
CALLS = "CASE WHEN n % 4 = 1 THEN '[\"call_1\"]' END"
ROLES = "CASE n % 4 WHEN 0 THEN 'user' WHEN 2 THEN 'tool' ELSE 'assistant' END"
LONG_PAST = (
    "INSERT INTO sessions (owner, id, source, started_at, active_at, next_position, turns)"
    f" {NUMBERS.format(SESSIONS)} SELECT 'o', 's' || n, 'cli', 1, n, 30000, 5 FROM numbers",
    "INSERT INTO summaries (session_key, kind, status, text, tokens, first_position,"
    " last_position, cursor_before, template, model, created_at)"
    f" {NUMBERS.format(5000)} SELECT CASE WHEN n < 200 THEN 1 ELSE 2 + n % 1000 END, 'micro',"
    " CASE n WHEN 199 THEN 'live' ELSE 'superseded' END,"
    " 'text', 10, 100 * n, 100 * n + 99, 0, 't', 'm', 1 FROM numbers",
    # The past of the busy session: rows that summaries absorbed, and their markers.
    "INSERT INTO messages (session_key, position, role, opens_turn, tokens, active, compacted,"
    " absorbed_by, call_ids, content, created_at)"
    f" {NUMBERS.format(ARCHIVED)} SELECT 1, n, {ROLES}, CASE n % 4 WHEN 0 THEN 1 ELSE 0 END, 10,"
    f" 0, 1, 1 + n / 100, {CALLS}, 'some words that were said', 1 FROM numbers",
    "INSERT INTO messages (session_key, position, kind, tokens, active, compacted, absorbed_by,"
    " summary_id, created_at)"
    f" {NUMBERS.format(200)} SELECT 1, 100 * n + 99, 'micro', 10,"
    " CASE n WHEN 199 THEN 1 ELSE 0 END, CASE n WHEN 199 THEN 0 ELSE 1 END,"
    " CASE n WHEN 199 THEN NULL ELSE n + 2 END, n + 1, 1 FROM numbers",
    "INSERT INTO messages (session_key, position, role, opens_turn, tokens, call_ids, content,"
    f" created_at) {NUMBERS.format(4 * LIVE_TURNS)} SELECT 1, {ARCHIVED} + n, {ROLES},"
    f" CASE n % 4 WHEN 0 THEN 1 ELSE 0 END, 10, {CALLS}, 'live words', 1 FROM numbers",
    # Other sessions, all of it live.
    "INSERT INTO messages (session_key, position, role, opens_turn, tokens, call_ids, content,"
    f" created_at) {NUMBERS.format(40 * OTHERS)} SELECT 2 + n / 40, n % 40, {ROLES},"
    f" CASE n % 4 WHEN 0 THEN 1 ELSE 0 END, 10, {CALLS}, 'other words', 1 FROM numbers",
    "INSERT INTO turn_events (session_key, event_id, digest, first_position, rows, revision,"
    f" created_at) {NUMBERS.format(5000)} SELECT 1 + n % 200, 'e' || n, '', 0, 0, 0, 1"
    " FROM numbers",
    "INSERT INTO answers (session_key, question, text, model, model_ms, created_at)"
    f" {NUMBERS.format(1000)} SELECT 1 + n % 200, 'q' || n, 'text', 'm', 0, 1 FROM numbers",
    "INSERT INTO attempts (session_key, job_id, kind, trigger, outcome, messages_before,"
    " messages_after, tokens_before, tokens_after, cursor, passes, tokens_saved, created_at)"
    f" {NUMBERS.format(ATTEMPTS)} SELECT 1 + n % 200, 1 + n, 'batch', 'manual', 'no_op', 9, 9,"
    " 9, 9, 0, 0, 0, 1 FROM numbers",
    "INSERT INTO signals (session_key, owner, kind, facts, created_at)"
    f" {NUMBERS.format(SIGNALS)} SELECT 1 + n % 200, 'o' || n % 2000, 'session_reset', '{{}}', 1"
    " FROM numbers",
    "INSERT INTO jobs (session_key, kind, state, queue, trigger, run_at, created_at, updated_at)"
    f" {NUMBERS.format(DONE_JOBS)} SELECT 1 + n % 200, 'turn', 'done', 'turns', 'turn', n, 1, 1"
    " FROM numbers",
    "INSERT INTO jobs (session_key, kind, state, queue, trigger, run_at, notified_at, created_at,"
    f" updated_at) {NUMBERS.format(DUE_JOBS)} SELECT 1 + n, 'turn', 'due', 'turns', 'turn', n,"
    " CASE n % 2 WHEN 0 THEN 1 END, 1, 1 FROM numbers",
    "INSERT INTO jobs (session_key, kind, state, queue, trigger, run_at, lease_until, fence,"
    f" attempt, created_at, updated_at) {NUMBERS.format(RUNNING_JOBS)} SELECT 2 + 2 * n, 'micro',"
    " 'running', 'micro', 'micro', 1, 4102444800000 + n, 1, 1, 1, 1 FROM numbers",
    # A long backlog of some owners, of which some is not due yet.
    "INSERT INTO jobs (session_key, owner, kind, queue, trigger, priority, run_at, notified_at,"
    f" created_at, updated_at) {NUMBERS.format(BACKLOG)} SELECT 1 + n, 'o' || n % 40, 'batch',"
    " 'batch', 'idle', n % 3, CASE n % 5 WHEN 0 THEN 4102444800000 ELSE n END,"
    " CASE n % 5 WHEN 0 THEN NULL ELSE 1 END, 1, 1 FROM numbers",
    "INSERT INTO jobs (session_key, kind, queue, trigger, run_at, notified_at, created_at,"
    " updated_at)"
    f" {NUMBERS.format(BACKLOG)} SELECT {DUE_JOBS} + 1 + n, 'turn', 'recompact', 'recompact', n,"
    " CASE n WHEN 0 THEN 1 END, 1, 1 FROM numbers",
    "INSERT INTO jobs (session_key, kind, state, queue, trigger, reason, run_at, created_at,"
    f" updated_at) {NUMBERS.format(DEAD_JOBS)} SELECT 1 + n, 'turn', 'dead', 'turns', 'turn',"
    " 'KeyError', 1, 1, 1 FROM numbers",
    # What scans look for, among much that they do not.
    'UPDATE sessions SET decided_turns = CASE WHEN "key" % 50 = 0 THEN 4 ELSE 5 END,'
    ' idle_since = CASE WHEN "key" % 50 = 0 THEN active_at END',
    "INSERT INTO guards (session_key, name, until_at, updated_at)"
    f" {NUMBERS.format(SESSIONS)} SELECT 1 + n, CASE n % 50 WHEN 0 THEN 'cooldown'"
    " ELSE 'poor_passes' END, n, 1 FROM numbers",
    'UPDATE sessions SET ended_at = active_at WHERE "key" % 50 = 1',
    "UPDATE summaries SET kind = 'placeholder', status = 'live' WHERE id % 100 = 7",
    # A long run of bulk work in its middle, and a long trail of acts.
    "INSERT INTO bulk_runs (actor, filters, state, at_once, sessions, created_at, updated_at)"
    f" {NUMBERS.format(BULK_RUNS)} SELECT 'a', '{{}}', CASE n WHEN {BULK_RUNS - 1} THEN 'running'"
    " ELSE 'done' END, 2, 9, 1, 1 FROM numbers",
    "INSERT INTO bulk_sessions (run_id, session_key, place, state, job_id)"
    f" {NUMBERS.format(SESSIONS)} SELECT {BULK_RUNS}, 1 + n, n, CASE WHEN n < 1000 THEN 'settled'"
    " WHEN n < 1002 THEN 'asked' ELSE 'waiting' END, 1 + n FROM numbers",
    "INSERT INTO audit (owner, session, actor, action, created_at)"
    f" {NUMBERS.format(SIGNALS)} SELECT 'o' || n % 2000, 's' || n % 500, 'a', 'compacted', 1"
    " FROM numbers",
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """Yield a database with a long past, its statistics up to date."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path_factory.mktemp('plans') / 'afterturn.db'}"
        else:
            server = request.config.stash[RUN].postgres_url()
            url = stack.enter_context(fresh_database(server))
        database = stack.enter_context(migrated(url))
        with database.write() as connection:
            for statement in LONG_PAST:
                connection.execute(text(statement))
            connection.execute(text("ANALYZE"))
        yield database


CLAIM = Claim(
    job_id=DONE_JOBS + DUE_JOBS + 1,
    session_key=2,
    kind=JobKind.MICRO,
    queue="micro",
    trigger="micro",
    priority=0,
    options={},
    attempt=1,
    fence=1,
    lease_owner="w",
)
"""The first running job."""

Call = Callable[[Database, Connection], object]


def append(database: Database, connection: Connection) -> None:
    session = StoredSession(database, BUSY)
    session.append_in(connection, [{"role": "user", "content": "x"}])
    session.make_due_in(connection)


def claim(database: Database, connection: Connection) -> None:
    # The first due job, and in its session nothing runs.
    found = jobs.claim(
        connection, database, DONE_JOBS + 1, lease_owner="w", lease_ms=1000, deadline_ms=1000
    )
    assert found is not None


def claim_alike(database: Database, connection: Connection) -> None:
    like = replace(CLAIM, kind=JobKind.BATCH, queue="batch", owner="0")
    assert jobs.claim_alike(connection, database, like, at_most=15, lease_ms=1000, deadline_ms=1000)


HOT: dict[str, tuple[Call, set[str]]] = {
    "read_view": (lambda d, c: messages.read_view(c, BUSY), {"ix_messages_live"}),
    "read_rows": (
        lambda d, c: messages.read_rows(c, BUSY, range(ARCHIVED, ARCHIVED + 8)),
        set(),
    ),
    "read_forward": (
        lambda d, c: messages.read_forward(c, BUSY, start=ARCHIVED, limit=64),
        {"ix_messages_live"},
    ),
    "read_backward": (
        lambda d, c: messages.read_backward(c, BUSY, limit=64),
        {"ix_messages_live"},
    ),
    "read view": (
        lambda d, c: read_view(c, BUSY, cursor=ARCHIVED, head=19, ahead=64, end=64),
        {"ix_messages_live", "ix_messages_markers"},
    ),
    "read_markers": (lambda d, c: messages.read_markers(c, BUSY), {"ix_messages_markers"}),
    "live_calls_before": (
        lambda d, c: messages.live_calls_before(c, BUSY, ARCHIVED + 100),
        {"ix_messages_live_calls"},
    ),
    "newest_request": (lambda d, c: messages.newest_request(c, BUSY), {"ix_messages_turns"}),
    "newest_request before": (
        lambda d, c: messages.newest_request(c, BUSY, before=ARCHIVED + 9),
        {"ix_messages_turns"},
    ),
    "agent_rows": (
        lambda d, c: messages.agent_rows(c, BUSY, start=ARCHIVED, before=10**9, limit=64),
        {"ix_messages_agent"},
    ),
    "read_state": (lambda d, c: read_state(c, d, BUSY), set()),
    "count_change": (
        lambda d, c: sessions.count_change(c, BUSY, messages=0, tokens=0),
        {"ix_messages_live"},
    ),
    "count_micro_pass": (
        lambda d, c: sessions.count_micro_pass(
            c,
            BUSY,
            messages=0,
            tokens=0,
            absorbed=0,
            cursor_from=ARCHIVED,
            cursor_to=ARCHIVED + 9,
        ),
        {"ix_messages_live"},
    ),
    "count_skipped": (
        lambda d, c: sessions.count_skipped(c, BUSY, cursor_from=ARCHIVED, cursor_to=ARCHIVED + 9),
        {"ix_messages_live"},
    ),
    "turn_starts": (
        lambda d, c: messages.turn_starts(c, BUSY, newest=3),
        {"ix_messages_turns"},
    ),
    "starts_turn": (
        lambda d, c: messages.starts_turn(c, BUSY, ARCHIVED),
        {"ix_messages_turns"},
    ),
    "restore pruned": (lambda d, c: pruned.restore(c, BUSY), {"ix_messages_pruned"}),
    "restore for rewind": (
        lambda d, c: pruned.restore_for_rewind(c, BUSY, cut=ARCHIVED),
        {"ix_messages_pruned"},
    ),
    "count pruned": (lambda d, c: pruned.count(c, BUSY), {"ix_messages_pruned"}),
    "find_original": (
        lambda d, c: pruned.find_original(c, owner="o", key=BUSY, position=ARCHIVED),
        {"uq_messages_position"},
    ),
    "read_everything": (lambda d, c: messages.read_everything(c, 5), set()),
    "restore": (lambda d, c: messages.restore(c, 200), {"ix_messages_absorbed_by"}),
    "withdraw_marker": (
        lambda d, c: messages.withdraw_marker(c, BUSY, 200),
        {"ix_messages_markers"},
    ),
    "change_marker": (
        lambda d, c: messages.change_marker(c, BUSY, shows=200, summary_id=200, tokens=1),
        {"ix_messages_markers"},
    ),
    "rewind": (
        lambda d, c: messages.rewind(c, BUSY, cut=ARCHIVED + 4 * LIVE_TURNS - 8),
        {"ix_messages_live", "uq_messages_position"},
    ),
    "undo_newest": (
        lambda d, c: undo.undo_newest(c, d, BUSY),
        {"ix_summaries_live", "ix_messages_markers", "ix_messages_absorbed_by"},
    ),
    "newest_live": (lambda d, c: summaries.newest_live(c, BUSY), {"ix_summaries_live"}),
    "append": (append, set()),
    "find_session": (
        lambda d, c: sessions.find(c, owner="o", session_id="s7"),
        set(),
    ),
    "page": (lambda d, c: sessions.page(c, limit=20), {"ix_sessions_active_at"}),
    "find_event": (lambda d, c: events.find(c, 3, "e402"), set()),
    "notify_due": (
        lambda d, c: jobs.notify_due(c, d, again_after_ms=30_000, limit=200),
        {"ix_jobs_notifiable"},
    ),
    "any_due": (
        lambda d, c: jobs.any_due(c, later(d, -LONG_AGO_MS), again_after_ms=30_000),
        {"ix_jobs_notifiable", "ix_jobs_lease"},
    ),
    "any_live": (
        lambda d, c: jobs.any_live(c, later(d, -LONG_AGO_MS)),
        {"ix_jobs_notifiable"},
    ),
    "any_bulk": (
        lambda d, c: jobs.any_bulk(c, d, at_once=2),
        {"ix_jobs_bulk", "ix_jobs_notified"},
    ),
    "notify_bulk": (
        lambda d, c: jobs.notify_bulk(c, d, at_once=2),
        {"ix_jobs_bulk", "ix_jobs_notified"},
    ),
    "rescue_expired": (lambda d, c: jobs.rescue_expired(c, d), {"ix_jobs_lease"}),
    "claim": (claim, {"uq_jobs_running"}),
    "notified": (lambda d, c: jobs.notified(c, d, DONE_JOBS + 1), set()),
    "next_owner": (
        lambda d, c: jobs.next_in_rotation(c, "batch", after="o7"),
        {"ix_jobs_notified"},
    ),
    "first_owner": (
        lambda d, c: jobs.next_in_rotation(c, "batch", after="p"),
        {"ix_jobs_notified"},
    ),
    "due_in_sessions": (
        lambda d, c: jobs.due_in_sessions(c, d, range(1, 17)),
        {"uq_jobs_open"},
    ),
    "claim_alike": (claim_alike, {"ix_jobs_notified"}),
    "finish_all": (
        lambda d, c: jobs.finish_all(
            c, d, [replace(CLAIM, job_id=number) for number in range(1, 17)]
        ),
        set(),
    ),
    "unread_reports": (
        lambda d, c: events.unread_reports(c, range(1, 17)),
        {"ix_turn_events_usage"},
    ),
    "lock_many": (lambda d, c: sessions.lock_many(c, range(1, 17)), set()),
    "cursors_of_many": (lambda d, c: cursors.read_many(c, range(1, 17)), set()),
    "move_cursors": (
        lambda d, c: cursors.move_many(c, {n: {CursorName.TURNS: n} for n in range(1, 17)}),
        set(),
    ),
    "note_decided": (
        lambda d, c: sessions.note_decided(c, dict.fromkeys(range(1, 17), 1), {1: 9}),
        set(),
    ),
    "due_in_session": (lambda d, c: jobs.due_in_session(c, d, BUSY), {"uq_jobs_open"}),
    "renew": (lambda d, c: jobs.renew(c, d, CLAIM, lease_ms=1000), set()),
    "check_fence": (lambda d, c: jobs.check_fence(c, CLAIM), set()),
    "finish": (lambda d, c: jobs.finish(c, d, CLAIM), set()),
    "find_answer": (lambda d, c: answers.find(c, 1, "q0"), set()),
    "standing": (lambda d, c: job_records.standing(c, d, DONE_JOBS + 1), set()),
    "open_jobs": (lambda d, c: job_records.open_jobs(c, BUSY), {"uq_jobs_open"}),
    "dead_page": (lambda d, c: dead_jobs.page(c, limit=20), {"ix_jobs_dead"}),
    "dead_page before": (
        lambda d, c: dead_jobs.page(c, reason="KeyError", owner="o", before=10**6, limit=20),
        {"ix_jobs_dead"},
    ),
    "dead_reasons": (lambda d, c: dead_jobs.reasons(c), {"ix_jobs_dead"}),
    "by_queue": (lambda d, c: backlog.by_queue(c, d), {"uq_jobs_open", "ix_jobs_dead"}),
    "running": (lambda d, c: backlog.running(c), set()),
    "leases": (lambda d, c: measures.leases(c, d), set()),
    "retrying": (lambda d, c: measures.retrying(c), {"uq_jobs_open"}),
    "lag": (lambda d, c: measures.lag(c, d), {"ix_sessions_undecided"}),
    "cooldowns": (lambda d, c: measures.cooldowns(c, d), {"ix_guards_cooldown"}),
    "placeholders": (lambda d, c: measures.placeholders(c), set()),
    "active_sizes": (
        lambda d, c: measures.active_sizes(c, d, within_ms=1, limit=100),
        {"ix_sessions_active_at"},
    ),
    "uncounted": (lambda d, c: measures.uncounted(c, after=ATTEMPTS - 10), set()),
    "last_attempt": (lambda d, c: attempts.last_id(c, BUSY), {"ix_attempts_session"}),
    "attempts_of_job": (
        lambda d, c: attempts.of_job(c, BUSY, ATTEMPTS - 199, after=ATTEMPTS - 400),
        {"ix_attempts_session"},
    ),
    "signals_of_owner": (
        lambda d, c: signals.read(c, owner="o7", after=SIGNALS - 1000),
        set(),
    ),
    "signals_of_session": (
        lambda d, c: signals.read(c, owner="o0", key=BUSY, after=SIGNALS - 1000),
        set(),
    ),
    "count_rung": (lambda d, c: jobs.count_notified(c, "batch", at_most=100), {"ix_jobs_notified"}),
    "undecided": (
        lambda d, c: scheduling.undecided(c, after=Place(key=70), limit=200),
        {"ix_sessions_undecided", "uq_jobs_open", "ix_jobs_failed"},
    ),
    "unhealed": (
        lambda d, c: scheduling.unreplaced_placeholders(
            c, d, rest_ms=1, after=Place(0, 7), limit=200
        ),
        {"ix_summaries_placeholders", "uq_jobs_open", "ix_jobs_failed"},
    ),
    "rested": (
        lambda d, c: scheduling.rested(c, d, after=Place(70, 1), limit=200),
        {"ix_guards_cooldown", "uq_jobs_open", "ix_jobs_failed"},
    ),
    "idle": (
        lambda d, c: scheduling.idle(c, d, idle_ms=3_600_000, after=Place(70, 1), limit=200),
        {"ix_sessions_idle"},
    ),
    "note_idle_look": (
        lambda d, c: scheduling.note_idle_look(c, [Place(7, 3), Place(8, 4)]),
        set(),
    ),
    "guards_of_a_page": (lambda d, c: guards.read_many(c, d, range(1, 100)), set()),
    "forget_jobs": (
        lambda d, c: maintenance.forget_jobs(c, d, older_ms=1, after=0, limit=200),
        set(),
    ),
    "ended_sessions": (
        lambda d, c: maintenance.ended_sessions(c, d, older_ms=1, limit=20),
        {"ix_sessions_ended"},
    ),
    "forget_events": (
        lambda d, c: maintenance.forget_events(c, range(1001, 1020)),
        set(),
    ),
    "forget_attempts": (
        lambda d, c: maintenance.forget_attempts(c, d, older_ms=1, after=0, limit=200),
        set(),
    ),
    "forget_signals": (
        lambda d, c: maintenance.forget_signals(c, d, older_ms=1, after=0, limit=200),
        set(),
    ),
    "running_bulk": (lambda d, c: bulk_runs.running(c), {"uq_bulk_runs_running"}),
    "next_waiting": (
        lambda d, c: bulk_runs.next_waiting(c, BULK_RUNS, limit=1),
        {"ix_bulk_sessions_waiting"},
    ),
    "finished_bulk": (
        lambda d, c: bulk_runs.finished(
            c, BULK_RUNS, replaces="replace_placeholder", trigger="recompact"
        ),
        {"ix_bulk_sessions_asked"},
    ),
    "bulk_under_way": (
        lambda d, c: bulk_runs.under_way(c, BULK_RUNS),
        {"ix_bulk_sessions_asked"},
    ),
    "audit_page": (
        lambda d, c: audit.page(c, Which(session="s7"), limit=20),
        {"ix_audit_session"},
    ),
    "audit_after": (lambda d, c: audit.after(c, Which(), number=SIGNALS - 100), set()),
    "newest_signal": (lambda d, c: signals.newest(c, owner="o7"), {"ix_signals_owner"}),
}
"""What each calls, and the indexes it needs; besides, none may read a table from end to end."""


LARGE = {
    "messages",
    "jobs",
    "sessions",
    "turn_events",
    "answers",
    "attempts",
    "signals",
    "audit",
    "bulk_runs",
    "bulk_sessions",
}


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_uses_its_index(database: Database, name: str) -> None:
    call, needed = HOT[name]
    plan = plan_of(database, lambda connection: call(database, connection))
    assert needed <= plan.indexes, plan.text
    assert not plan.scanned & LARGE, plan.text
