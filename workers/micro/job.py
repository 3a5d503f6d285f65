"""The micro job: absorb old exchanges into the rolling summary, pass by pass."""

from __future__ import annotations

from functools import partial

from storage import answers
from storage.answers import StoredAnswer
from storage.conversations.micro_reads import read_state
from workers.micro.commit import absorb, count_failure, nothing_left, rewrite
from workers.micro.plan import NothingDue, PassPlan, plan_pass
from workers.runtime.answer_store import ask
from workers.runtime.commit import commit
from workers.runtime.pass_context import PassContext, PassResult
from workers.summariser.contract import SummariserError, Task


def micro_pass(run: PassContext) -> PassResult:
    """Plan, summarise and commit one micro pass."""
    plan, stored = _plan(run)
    if isinstance(plan, NothingDue):
        return commit(run, partial(nothing_left, found=plan))
    run.context.failpoint("planned")
    revision = plan.session.revision
    try:
        answer = ask(run, plan.answer_key, plan.request) if stored is None else stored
    except SummariserError as error:
        failed = partial(count_failure, plan=plan, error=error)
        return commit(run, failed, revision=revision)
    run.context.failpoint("answered")
    body = rewrite if plan.task is Task.DEFRAG else absorb
    return commit(run, partial(body, plan=plan, answer=answer), revision=revision)


def _plan(run: PassContext) -> tuple[PassPlan | NothingDue, StoredAnswer | None]:
    """Plan the next pass; return its stored answer too, if an earlier run ended between answer and
    commit."""
    settings, summariser = run.settings, run.context.summariser
    if not (settings.enabled and settings.micro_compact):
        return NothingDue("micro-compaction is switched off"), None
    with run.database.read() as connection:
        state = read_state(connection, run.database, run.key)
        plan = plan_pass(
            connection,
            state,
            settings,
            input_chars=summariser.room(settings.micro_compact_defrag_threshold_tokens * 3 // 2),
            fingerprint=summariser.fingerprint,
            today=run.context.today(),
        )
        if isinstance(plan, NothingDue) or not state.has_answers:
            return plan, None
        stored = answers.find(connection, run.key, plan.answer_key)
    if stored is not None:
        run.cost.count(stored)
    return plan, stored
