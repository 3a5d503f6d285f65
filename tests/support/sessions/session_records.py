"""Session records for rules that take one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from storage.conversations.sessions import SessionRecord

_BARE = SessionRecord(
    key=1,
    owner="o",
    id="s",
    source="cli",
    chat_id=None,
    thread_id="",
    title=None,
    model="m",
    model_config=None,
    context_window=200_000,
    reserved_output=0,
    declared_window=None,
    managed_by=None,
    calibration=None,
    parent_key=None,
    link=None,
    revision=7,
    next_position=40,
    turns=10,
    turn_open=False,
    unabsorbed_tokens=20_000,
    checked_tokens=None,
    live_messages=40,
    live_tokens=20_000,
    passes=0,
    tokens_saved=0,
    started_at=0,
    active_at=0,
    ended_at=None,
    archived_at=None,
)


def session_record(**facts: Any) -> SessionRecord:
    """Return a session on a window of 200,000 tokens, whose threshold is 150,000, but for
    `facts`."""
    return replace(_BARE, **facts)
