"""The jobs table: due, claim, renew, finish, release, bury, ring (ARCHITECTURE.md, *Jobs*).

States: `due` waits for `run_at` and a worker; `running` is held by a worker until its lease ends;
`done` and `dead` are closed. Of open (due or running) jobs there is at most one per session and
kind, of running ones at most one per session. The fence grows at every claim; every statement
here that writes for a holder carries it.

| module | does |
|---|---|
| `opening` | make work due, withdraw it |
| `ringing` | find what to ring for |
| `choosing` | tell whose turn it is in a queue |
| `claiming` | take a job, or take it away from a holder |
| `holding` | what its holder may write |
"""

from __future__ import annotations

from storage.jobs.choosing import Choice, count_notified, next_in_rotation, notified
from storage.jobs.claiming import claim, claim_alike, fence_out, rescue_expired
from storage.jobs.enqueueing import enqueue, withdraw
from storage.jobs.holding import (
    check_fence,
    dead_letter,
    extend,
    finish,
    finish_all,
    go_on_as,
    note_tries,
    proceed,
    release,
    renew,
)
from storage.jobs.notifying import (
    any_bulk,
    any_due,
    any_live,
    count_bulk,
    due_in_session,
    due_in_sessions,
    notify_bulk,
    notify_due,
)
from storage.jobs.terms import MAX_CRASHES, Claim, DueJob, Ended, JobKind, JobState

__all__ = [
    "MAX_CRASHES",
    "Choice",
    "Claim",
    "DueJob",
    "Ended",
    "JobKind",
    "JobState",
    "any_bulk",
    "any_due",
    "any_live",
    "check_fence",
    "claim",
    "claim_alike",
    "count_bulk",
    "count_notified",
    "dead_letter",
    "due_in_session",
    "due_in_sessions",
    "enqueue",
    "extend",
    "fence_out",
    "finish",
    "finish_all",
    "go_on_as",
    "next_in_rotation",
    "note_tries",
    "notified",
    "notify_bulk",
    "notify_due",
    "proceed",
    "release",
    "renew",
    "rescue_expired",
    "withdraw",
]
