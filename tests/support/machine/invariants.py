"""What must be true of a session whenever nothing is in the middle of happening."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from sqlalchemy import select

from storage.engine import Database
from storage.jobs import MAX_CRASHES, JobKind, JobState
from storage.models import Answer, Attempt, Guard, Job, Signal, Summary
from tests.support.machine.account import Account
from tests.support.machine.state import State
from tests.support.machine.turns import ORDER, SECRETS
from tests.support.model.validity import check_view
from workers.conversation.regions import head_end, tail_start
from workers.policy.threshold import NoUsableWindowError, region_rules, session_threshold
from workers.rendering import Dialect, render
from workers.settings import CompressionSettings
from workers.summariser.role_play import is_order

_QUOTED = re.compile(r"`[^`\n]*`")


def check(account: Account, now: State, settings: CompressionSettings) -> None:
    """Check the invariants of one session, in the state that was judged last."""
    assert now.unchanged == account.state.unchanged
    _each_message_once(account, now)
    _counters(account, now)
    _markers(now, settings)
    _links(now)
    _renders(now)


def _each_message_once(account: Account, now: State) -> None:
    rows = now.messages
    assert [row.position for row in rows] == list(range(len(account.said)))
    for row, one in zip(rows, account.said, strict=True):
        assert (row.content, row.fields, row.role) == (one.content, one.fields, one.role)
        assert (row.whole_tokens, row.created_at) == (one.tokens, one.created_at)
        flags = (row.active, row.compacted)
        assert flags == (0, 0) if one.gone else flags in ((1, 0), (0, 1))
        assert (row.absorbed_by is not None) == (flags == (0, 1))
    system = [row for row in rows if row.role in ("system", "developer")]
    assert all(row.active for row in system if not account.said[row.position].gone)
    requests = [row for row in rows if row.opens_turn and not account.said[row.position].gone]
    assert all(row.active for row in requests[:1])
    for row in requests[-1:]:
        # A rewind may go back to one that a summary covers.
        rewound = any(one.gone for one in account.said[row.position :])
        assert row.active or rewound, "the newest request is not there word for word"


def _counters(account: Account, now: State) -> None:
    record = now.session
    assert record.next_position == len(account.said)
    assert record.live_messages == len(now.live)
    assert record.live_tokens == sum(row.tokens for row in now.live)
    ahead = (row for row in now.live if not row.is_marker and row.position >= now.cursor)
    assert record.unabsorbed_tokens == sum(row.tokens for row in ahead)
    said = sum(one.tokens for one in account.said if not one.gone)
    assert record.live_tokens + record.tokens_saved == said
    assert 0 <= now.cursor <= record.next_position


def _markers(now: State, settings: CompressionSettings) -> None:
    markers = [row for row in now.live if row.is_marker]
    assert [row.kind for row in markers] in ([], ["batch"], ["micro"], ["batch", "micro"])
    live = sorted(one.id for one in now.live_summaries)
    assert sorted(row.summary_id or 0 for row in markers) == live
    assert [row.order for row in now.view] == sorted(row.order for row in now.view)
    for row in markers:
        summary = now.summaries[row.summary_id or 0]
        assert (row.tokens, row.position) == (summary.tokens, summary.last_position)
        assert row.position < now.cursor
    try:
        rules = region_rules(session_threshold(now.session, settings), settings)
    except NoUsableWindowError:
        return
    places = [i for i, row in enumerate(now.view) if row.kind.is_marker]
    if places:
        assert head_end(now.view, rules) <= places[0]
        assert places[-1] < tail_start(now.view, rules)


def _links(now: State) -> None:
    """Whatever is archived can be opened: its summary leads to one that is shown."""
    absorbed = {row.summary_id: row.absorbed_by for row in now.rows if row.compacted}
    in_place = {
        one.replaces: one.id
        for one in now.summaries.values()
        if one.status != "undone" and one.kind in ("defrag", "placeholder_replaced")
    }
    for row in now.rows:
        summary_id = row.absorbed_by
        for _ in range(len(now.summaries) + 1):
            if summary_id is None or now.summaries[summary_id].status == "live":
                break
            assert now.summaries[summary_id].status == "superseded"
            summary_id = in_place.get(summary_id) or absorbed[summary_id]
        else:
            raise AssertionError("summaries replace each other in a circle")


def _renders(now: State) -> None:
    newest = next((row.message for row in reversed(now.view) if row.opens_turn), None)
    for dialect in Dialect:
        view = render(now.view, dialect)
        check_view(view, dialect)
        if newest is not None and isinstance(newest["content"], str):
            _newest_is_there(newest["content"], view.messages, dialect)
        shown = json.dumps([view.system, view.messages])
        for row in now.view:
            if row.kind.is_marker:
                assert shown.count(json.dumps(row.shown)[1:-1]) >= 1


def _newest_is_there(words: str, messages: list[dict[str, Any]], dialect: Dialect) -> None:
    contents = [message["content"] for message in messages if message["role"] == "user"]
    if dialect is Dialect.ANTHROPIC:
        contents = [part.get("text") for content in contents for part in content]
    assert words in contents


def check_jobs(now: State) -> None:
    """Check that a session has one open job of a kind and one running job."""
    running = [job for job in now.jobs if job.state == JobState.RUNNING]
    assert len(running) <= 1
    for kind in JobKind:
        still = (JobState.DUE, JobState.RUNNING)
        assert sum(job.kind == kind and job.state in still for job in now.jobs) <= 1
    assert all(job.attempt <= MAX_CRASHES for job in now.jobs)
    assert all(job.attempt >= 0 and job.tries >= 0 for job in now.jobs)


def check_texts(database: Database, logged: Iterable[str], tags: dict[int, str]) -> None:
    """Check all that we write: no secret, no order of a tool, no words of another owner, and in
    records that hold figures, no words of a conversation at all."""
    with database.read() as connection:
        for table in (Summary, Answer, Signal, Attempt, Job, Guard):
            for row in connection.execute(select(table.__table__)).mappings():
                for text in (value for value in row.values() if isinstance(value, str)):
                    check_words(text, tags, row["session_key"])
                    _passes_no_order_on(text)
                    assert table in (Summary, Answer) or not _sessions_in(text, tags)
    for line in logged:
        check_words(line, tags)
        assert not _sessions_in(line, tags), "words of a conversation in the log"


def check_words(text: str, tags: dict[int, str], key: int | None = None) -> None:
    """Check a text that leaves the process or is written; `key` is the session that it is about,
    where that is known."""
    for secret in SECRETS:
        assert secret not in text, "a secret was written"
    sessions = _sessions_in(text, tags)
    assert len(sessions) <= 1, "two owners in one text"
    assert key is None or sessions <= {key}, "the words of another owner"


def _sessions_in(text: str, tags: dict[int, str]) -> set[int]:
    """Return the sessions that words of the text can only be from."""
    return {session for session, tag in tags.items() if tag in text}


def _passes_no_order_on(text: str) -> None:
    for line in text.splitlines():
        bare = _QUOTED.sub(" ", line)
        assert ORDER not in bare or not is_order(bare), "an order of a tool was passed on"
