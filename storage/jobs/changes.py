"""Values that several statements set when a job changes hands."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, case, func

from storage.jobs.terms import CAUSE
from storage.models import Job


def stronger_came() -> ColumnElement[bool]:
    """Whether a stronger trigger arrived while the job ran."""
    return func.coalesce(Job.next_strength, -1) > Job.strength


def next_cause(taken: ColumnElement[bool]) -> dict[str, Any]:
    """Let the trigger that came meanwhile take the job over where `taken`, and forget it."""
    known = taken & Job.next_trigger.is_not(None)
    columns = Job.__table__.c
    return {
        **{name: case((known, columns[f"next_{name}"]), else_=columns[name]) for name in CAUSE},
        **{f"next_{name}": None for name in CAUSE},
    }


def unheld(now: ColumnElement[int]) -> dict[str, Any]:
    """A job that nobody holds and nobody was rung for."""
    return {
        "holder": None,
        "lease_until": None,
        "deadline_at": None,
        "rung_at": None,
        "again": 0,
        "updated_at": now,
    }
