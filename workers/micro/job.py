"""The micro job: pass by pass, one commit each, while there is something to absorb."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from storage import answers, jobs, sessions
from storage.answers import StoredAnswer
from storage.errors import FenceLost
from storage.jobs import Claim, DueJob, Ended
from storage.standing import read_standing
from workers.closing import StaleError, note
from workers.keeping import keep_answer
from workers.lease import kept
from workers.micro.commit import Ending, close_job
from workers.micro.outcomes import Absorbed, Failed, HandedBack, NothingLeft, PassOutcome, Stale
from workers.micro.plan import NothingDue, PassPlan, plan_pass
from workers.micro.prospect import mark_of_doubt
from workers.summariser.answers import accept
from workers.summariser.contract import Stopped, SummariserError, Task
from workers.told_passes import tell_discarded
from workers.workshop import Workshop

log = logging.getLogger(__name__)

MOST_STALE = 5
"""Plans in a row that may prove stale before the job lets other work go first."""


@dataclass(frozen=True, slots=True)
class MicroReport:
    """What a claim of a micro job came to, and what is due next in its session."""

    outcomes: tuple[PassOutcome, ...]
    due: tuple[DueJob, ...] = field(default=())


def run_micro(shop: Workshop, claim: Claim) -> MicroReport:
    """Work a claimed micro job until nothing is left, it must wait, or the worker stops.

    Database errors pass through: the lease then ends by itself and the job is claimed again.
    """
    outcomes: list[PassOutcome] = []
    with kept(shop, claim) as gone:
        try:
            while not outcomes or not _ends_job(outcomes):
                # A model call that runs is waited for when the worker stops: it is paid already.
                stops = gone() or shop.stopping()
                outcomes.append(HandedBack() if stops else _pass(shop, claim, gone))
                last = outcomes[-1]
                if isinstance(last, Absorbed) and last.due is not None:
                    # It has closed the job.
                    left = NothingLeft("too little is left for another pass")
                    return MicroReport((*outcomes, left), last.due)
            due = _leave(shop, claim, outcomes)
        except FenceLost:
            tell_discarded(log, claim)
            return MicroReport((*outcomes, HandedBack()))
    return MicroReport(tuple(outcomes), due)


def _pass(shop: Workshop, claim: Claim, stop: Callable[[], bool]) -> PassOutcome:
    started = time.monotonic()
    plan, answer = _plan(shop, claim)
    if isinstance(plan, NothingDue):
        return NothingLeft(plan.reason)
    shop.reach("planned")
    requests = 0

    def ending() -> Ending:
        return Ending(shop, claim, plan, int(1000 * (time.monotonic() - started)), requests)

    try:
        if answer is None:
            try:
                answer, requests = _ask(shop, claim, plan, stop)
            except SummariserError as error:
                requests = error.requests
                return ending().fail(error)
        shop.reach("answered")
        if plan.task is Task.DEFRAG:
            return ending().defrag(answer)
        return ending().absorb(answer)
    except Stopped:
        return HandedBack()
    except StaleError:
        with shop.database.write() as connection:
            note(shop, connection, claim, "stale")
        return Stale()


def _plan(shop: Workshop, claim: Claim) -> tuple[PassPlan | NothingDue, StoredAnswer | None]:
    """The pass to make, and its answer if somebody asked already and was stopped before the
    commit."""
    settings = shop.settings.current().compression
    if not (settings.enabled and settings.micro_compact):
        return NothingDue("micro-compaction is switched off"), None
    with shop.database.read() as connection:
        standing = read_standing(connection, shop.database, claim.session_key)
        plan = plan_pass(
            connection,
            standing,
            settings,
            input_chars=shop.summariser.room(
                settings.micro_compact_defrag_threshold_tokens * 3 // 2
            ),
            fingerprint=shop.summariser.fingerprint,
            today=shop.today(),
        )
        if isinstance(plan, NothingDue) or not standing.has_answers:
            return plan, None
        return plan, answers.find(connection, claim.session_key, plan.question)


def _ask(
    shop: Workshop, claim: Claim, plan: PassPlan, stop: Callable[[], bool]
) -> tuple[StoredAnswer, int]:
    """Get an answer and keep it, accepted, before anything is committed; gives it and how many
    requests it took."""
    started = time.monotonic()
    reply = shop.summariser.summarise(plan.request, stop)
    try:
        text = accept(reply.text, plan.request)
    except SummariserError as error:
        error.requests = reply.requests
        raise
    answer = StoredAnswer(
        text=text,
        model=reply.model,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        model_ms=int(1000 * (time.monotonic() - started)),
    )
    shop.reach("replied")
    keep_answer(shop, claim.session_key, plan.question, answer)
    return answer, reply.requests


def _ends_job(outcomes: list[PassOutcome]) -> bool:
    stale = outcomes[-MOST_STALE:]
    return isinstance(outcomes[-1], NothingLeft | Failed | HandedBack) or (
        len(stale) == MOST_STALE and all(isinstance(outcome, Stale) for outcome in stale)
    )


def _leave(shop: Workshop, claim: Claim, outcomes: list[PassOutcome]) -> tuple[DueJob, ...]:
    """Give the job up in the state that its last outcome asks for."""
    database = shop.database
    with database.write() as connection:
        # Work that is made due meanwhile is either seen below or finds the job given up.
        session = sessions.lock(connection, claim.session_key)
        match outcomes[-1]:
            case Failed():
                pass
            case NothingLeft():
                if len(outcomes) == 1:
                    note(shop, connection, claim, "nothing_due")
                    doubt = mark_of_doubt(session, shop.settings.current().compression)
                    sessions.set_micro_mark(connection, claim.session_key, doubt)
                return close_job(shop, connection, claim)
            case _:
                jobs.release(
                    connection, database, claim, delay_ms=0, reason=None, ended=Ended.HANDED_BACK
                )
        return tuple(jobs.due_in_session(connection, database, claim.session_key))
