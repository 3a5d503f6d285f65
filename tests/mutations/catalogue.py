"""Twenty ways to break the product.

A mutation names a text that stands exactly once in the product, wherever that is, so that moving
code does not invalidate it. One whose text is not found any more must be written anew.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """`before` becomes `after`. `name` says what the product then does wrong."""

    name: str
    before: str
    after: str


MUTATIONS = (
    Mutation(
        "a worker that has lost its job writes all the same",
        "(_J.id == claim.job_id, _J.fence == claim.fence, _J.state == JobState.RUNNING)",
        "(_J.id == claim.job_id, _J.state == JobState.RUNNING)",
    ),
    Mutation(
        "the fence is not part of the lock on a job",
        '    _JOBS.c.fence == bindparam("held_by"),\n',
        '    _JOBS.c.fence <= bindparam("held_by"),\n',
    ),
    Mutation(
        "a commit does not look at the session's revision",
        "if revision is not None and before.revision != revision:",
        "if revision is not None and before.revision < revision:",
    ),
    Mutation(
        "a lease that has ended is renewed",
        "_J.lease_until > now, _J.deadline_at > now",
        "_J.deadline_at > now",
    ),
    Mutation(
        "a job that is handed back keeps the attempt",
        "Ended.HANDED_BACK: _J.attempt - 1",
        "Ended.HANDED_BACK: _J.attempt",
    ),
    Mutation(
        "a job that kills its workers is started for ever",
        "state=case((crashed_often, JobState.DEAD), else_=JobState.DUE)",
        "state=JobState.DUE",
    ),
    Mutation(
        "a request of exactly the threshold is not compacted",
        "load.prompt_tokens >= threshold.tokens",
        "load.prompt_tokens > threshold.tokens",
    ),
    Mutation(
        "exchanges are absorbed only above the least size",
        "if found_tokens >= min_tokens:",
        "if found_tokens > min_tokens:",
    ),
    Mutation(
        "a summary as large as what it replaces is taken",
        "if new.tokens >= plan.span.tokens:\n        return _refuse",
        "if new.tokens > plan.span.tokens:\n        return _refuse",
    ),
    Mutation(
        "no secret is redacted in texts",
        "    return redaction(text).text\n",
        "    return text\n",
    ),
    Mutation(
        "an endpoint's Retry-After is ignored when a job waits",
        "int(1000 * max(asked, rng.uniform(0, ceiling)))",
        "int(1000 * rng.uniform(0, ceiling))",
    ),
    Mutation(
        "an endpoint's Retry-After is ignored by the breaker",
        "open_until=endpoint.now + max(open_ms, asked)",
        "open_until=endpoint.now + open_ms",
    ),
    Mutation(
        "a NUL is stored as it is",
        'if text.isascii() and "\\x00" not in text:',
        "if text.isascii():",
    ),
    Mutation(
        "a session of another owner is found by its id",
        "select(*COLUMNS).where(_S.owner == owner, _S.id == session_id)",
        "select(*COLUMNS).where(_S.id == session_id)",
    ),
    Mutation(
        "signals of other owners are read",
        "SignalRow.owner == owner, SignalRow.id > after,",
        "SignalRow.id > after,",
    ),
    Mutation(
        "a retried turn with other messages is taken for a repetition",
        "if stored.digest != write.draft.digest:",
        "if not stored.digest:",
    ),
    Mutation(
        "a cooldown outlives a change of the summariser",
        "cooldown.subject in (None, fingerprint)",
        "True",
    ),
    Mutation(
        "after an undo passes do not wait for the next turn",
        "undone.subject == session.turns",
        "undone.subject == session.turns + 1",
    ),
    Mutation(
        "a rewind keeps a summary that ends exactly at the cut",
        "any(summary.last_position >= cut for summary in",
        "any(summary.last_position > cut for summary in",
    ),
    Mutation(
        "a rewind leaves the cursor beyond the end",
        "if cursors.read(connection, key, CursorName.MICRO) > cut:",
        "if False:",
    ),
)
