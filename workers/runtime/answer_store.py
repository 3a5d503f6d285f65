"""Ask the summariser and store each answer, so that it is paid for once."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Sequence

from storage import answers
from storage.answers import StoredAnswer
from storage.errors import DatabaseUnavailable
from workers.runtime.pass_context import PassContext
from workers.summariser.answers import accept
from workers.summariser.contract import SummariserError, SummaryRequest, Task
from workers.summariser.passages import passages_size

log = logging.getLogger(__name__)

BATCH_PREFIX = "batch:"
"""Prefix of the answer keys of batch passes; those of micro passes have none."""

STORE_SECONDS = 60.0
"""How long storing an answer is retried while the database is down: far longer than a restart."""

_PAUSE_SECONDS = 0.2


def answer_key(
    *, task: Task, rows: Sequence[int], previous: str, template: str, focus: str = ""
) -> str:
    """Return the key under which the answer to a request is stored.

    It is a digest of what is asked: ids of the rows, previous summary, template and focus. The
    prompt's text is not part of it, because that contains a date and a budget.
    """
    facts = [task.value, list(rows), previous, template, focus]
    text = json.dumps(facts, ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{BATCH_PREFIX}{digest}" if task.in_sections else digest


def ask(run: PassContext, key: str, request: SummaryRequest) -> StoredAnswer:
    """Get an answer from the summariser, check it, and store it before anything is committed.

    Its cost is counted with the pass. Raises `SummariserError` and `Stopped`.
    """
    cost = run.cost
    cost.asked_chars = passages_size(request.passages)
    started = time.monotonic()
    try:
        reply = run.context.summariser.summarise(request, run.job.must_stop)
    except SummariserError as error:
        cost.requests += error.requests
        raise
    cost.requests += reply.requests
    answer = StoredAnswer(
        text=accept(reply.text, request),
        model=reply.model,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        model_ms=int(1000 * (time.monotonic() - started)),
    )
    run.context.failpoint("replied")
    _store(run, key, answer)
    cost.count(answer)
    return answer


def _store(run: PassContext, key: str, answer: StoredAnswer) -> None:
    """Store an answer; retry while the database fails, for a minute at most.

    Answers are keyed, not fenced, so one is stored even if the lease was lost meanwhile. Raises
    `DatabaseUnavailable` when the minute is over.
    """
    until = time.monotonic() + STORE_SECONDS
    while True:
        try:
            with run.database.store() as connection:
                answers.keep(connection, run.database, run.key, key, answer)
        except DatabaseUnavailable:
            if time.monotonic() > until:
                raise
            log.warning("an answer could not be stored; retrying")
            time.sleep(_PAUSE_SECONDS)
        else:
            return
