"""The jobs table: enqueue, notify, claim, renew, finish, release and dead-letter.

States: `due` waits for `run_at` and a worker; `running` is held by a worker until its lease ends;
`done` and `dead` are closed. Of open (due or running) jobs there is at most one per session and
kind, of running ones at most one per session. The fence grows at every claim, and every statement
here that writes for a lease owner carries it; see docs/explanation/leases.md.

| module | does |
|---|---|
| `terms` | defines kinds, states and the values handed to callers |
| `enqueueing` | enqueues work and withdraws it |
| `notifying` | finds jobs to notify workers of |
| `queue_states` | pauses queues, remembers the owner served last |
| `choosing` | chooses among the owners of a queue |
| `claiming` | takes a job, or takes it away from its lease owner |
| `holding` | writes for the lease owner: renew, finish, release, dead-letter |
| `backlog` | counts the work that waits |
| `job_records` | shows stored jobs |
| `dead_jobs` | lists, retries and drops jobs that were given up |
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
