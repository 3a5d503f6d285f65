"""The transactions that end a micro pass: all of its writes, or none."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from storage import answers, cursors, guards, jobs, messages, sessions, summaries
from storage.answers import StoredAnswer
from storage.cursors import CursorName
from storage.guards import GuardName
from storage.jobs import Claim, DueJob, Ended
from storage.rows import Kind
from storage.sessions import SessionRecord
from storage.summaries import SummaryKind, SummaryStatus
from workers.closing import StaleError, closing, record
from workers.marker import frame_tokens
from workers.micro.outcomes import (
    Absorbed,
    Defragmented,
    DefragRejected,
    Failed,
    Skipped,
)
from workers.micro.plan import PassPlan
from workers.micro.prospect import mark_of, tokens_until_due
from workers.questions import BATCH_QUESTIONS
from workers.summariser.contract import SummariserError, Task
from workers.summariser.prompts import TEMPLATE_VERSION
from workers.tokens import estimate_text
from workers.workshop import Workshop

MOST_FAILURES = 3
"""Bad answers to one exchange after which it is skipped (ENGINE.md §7)."""

DEFRAG_MOST = 0.8
"""Share of its old size that a rewritten summary may have at most (ENGINE.md §7)."""


def close_job(shop: Workshop, connection: Connection, claim: Claim) -> tuple[DueJob, ...]:
    """Close a job that has nothing left to absorb; gives what is due in its session now.

    The caller holds the session's row. Raises `FenceLost`.
    """
    # Of answers to plans that proved stale or were made by a late holder, too.
    answers.drop_all(connection, claim.session_key, but=BATCH_QUESTIONS)
    jobs.finish(connection, shop.database, claim)
    return tuple(jobs.due_in_session(connection, shop.database, claim.session_key))


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one pass. `total_ms` is what it took, `requests` how often a model was asked.

    Each method writes in one transaction, and raises `StaleError` and `FenceLost` having written
    nothing.
    """

    shop: Workshop
    claim: Claim
    plan: PassPlan
    total_ms: int
    requests: int

    def absorb(self, answer: StoredAnswer) -> Absorbed:
        """Archive the planned rows and put the new rolling summary in their place."""
        plan, key, old = self.plan, self.claim.session_key, self.plan.marker
        tokens = estimate_text(answer.text) + frame_tokens()
        with self._transaction() as (connection, before):
            summary_id = self._insert_summary(
                connection,
                answer,
                kind=SummaryKind.MICRO,
                tokens=tokens,
                first_position=plan.first_position,
                last_position=plan.place,
            )
            gone = (*plan.rows, *([old.id] if old else []))
            if messages.archive(connection, gone, summary_id=summary_id) != len(gone):
                raise StaleError
            messages.insert_marker(
                connection,
                self.shop.database,
                key,
                kind=Kind.MICRO,
                position=plan.place,
                tokens=tokens,
                summary_id=summary_id,
            )
            cursors.move(connection, key, CursorName.MICRO, plan.cursor)
            over = (GuardName.MICRO_FAILURES, GuardName.ENDPOINT_FAILURES, GuardName.UNDONE)
            # Nobody puts one of them while this job runs, but by an undo, which makes it stale.
            if any(name in plan.guards for name in over):
                guards.clear(connection, key, *over)
            delta = tokens - plan.absorbed_tokens - (old.tokens if old else 0)
            after = sessions.count_change(
                connection,
                key,
                messages=1 - len(gone),
                tokens=delta,
                passes=1,
                saved=-delta,
                micro_mark=self._mark(before, tokens, delta),
            )
            due = None
            if plan.is_last and not self._is_too_long(answer):
                self._record_done(connection, before, after, answer, summary_id)
                due = close_job(self.shop, connection, self.claim)
            else:
                self._conclude(connection, before, after, answer, summary_id)
        self.shop.reach("after-commit")
        return Absorbed(len(plan.rows), before.live_tokens, after.live_tokens, due)

    def _mark(self, before: SessionRecord, marker: int, delta: int) -> str | None:
        """The mark of a session that the last pass leaves; None where that has to be found out.

        What was appended since the plan counts as growth.
        """
        plan = self.plan
        if plan.prospect is None:
            return None
        size = plan.session.live_tokens + delta
        left = replace(before, revision=before.revision + 1, live_tokens=size)
        grows = tokens_until_due(replace(plan.prospect, marker=marker), left, plan.settings)
        return mark_of(left, plan.settings, grows) if grows else None

    def _is_too_long(self, answer: StoredAnswer) -> bool:
        """Whether the next pass would have to rewrite the summary."""
        mark = self.shop.settings.current().compression.micro_compact_defrag_threshold_tokens
        return estimate_text(answer.text) > mark

    def defrag(self, answer: StoredAnswer) -> Defragmented | DefragRejected:
        """Let the marker show the rewritten summary where it is, if that is small enough.

        Else nothing changes but the mark at which the next rewrite is due, so that absorbing goes
        on (F057).
        """
        size, old = estimate_text(answer.text), self.plan.marker
        if old is None or size > DEFRAG_MOST * self.plan.request.replaced_tokens:
            return self._reject(answer=answer)
        tokens, key = size + frame_tokens(), self.claim.session_key
        with self._transaction() as (connection, before):
            former = summaries.newest_live(connection, key)
            if former is None or former.id != old.summary_id:
                raise StaleError
            summary_id = self._insert_summary(
                connection,
                answer,
                kind=SummaryKind.DEFRAG,
                tokens=tokens,
                first_position=former.first_position,
                last_position=former.last_position,
            )
            messages.change_marker(
                connection, key, shows=former.id, summary_id=summary_id, tokens=tokens
            )
            guards.clear(connection, key, GuardName.DEFRAG_MARK, GuardName.ENDPOINT_FAILURES)
            delta = tokens - old.tokens
            after = sessions.count_change(
                connection, key, messages=0, tokens=delta, passes=1, saved=-delta
            )
            self._conclude(connection, before, after, answer, summary_id)
        self.shop.reach("after-commit")
        return Defragmented(before.live_tokens, after.live_tokens)

    def fail(self, error: SummariserError) -> Failed | Skipped | DefragRejected:
        """Count a failure and say what follows from it.

        An endpoint that cannot be used costs the exchange nothing: the job waits. A bad answer
        counts against the exchange, and the third one in a row skips it.
        """
        if error.error_class.not_asked:
            return self._look_again(error)
        if error.error_class.blames_endpoint:
            return self._wait(error)
        if self.plan.task is Task.DEFRAG:
            return self._reject(error=error)
        if self.plan.failures + 1 >= MOST_FAILURES:
            return self._skip(error)
        return self._wait(error)

    def _wait(self, error: SummariserError) -> Failed:
        shop, key = self.shop, self.claim.session_key
        with self._transaction() as (connection, session):
            if error.error_class.blames_endpoint:
                held = guards.read_all(connection, shop.database, key).get(
                    GuardName.ENDPOINT_FAILURES
                )
                failures, subject = (held.count if held else 0) + 1, None
                name = GuardName.ENDPOINT_FAILURES
            else:
                failures, subject = self.plan.failures + 1, self.plan.first_position
                name = GuardName.MICRO_FAILURES
                # It did answer, so its outage is over.
                guards.clear(connection, key, GuardName.ENDPOINT_FAILURES)
            guards.put(
                connection,
                shop.database,
                key,
                name,
                count=failures,
                subject=subject,
                detail=error.error_class.value,
            )
            self._record(connection, "failed", session, error=error)
            delay_ms = self._release(connection, error, failures)
        self.shop.reach("after-commit")
        return Failed(error.error_class, delay_ms, shop.summariser.model, error.detail)

    def _look_again(self, error: SummariserError) -> Failed:
        """Wait until a model may be asked. Nobody was, so nothing is counted, and no attempt
        recorded: every session that waits would have one for every look."""
        with self._transaction() as (connection, _):
            delay_ms = self._release(connection, error, 1)
        self.shop.reach("after-commit")
        return Failed(error.error_class, delay_ms, self.shop.summariser.model, error.detail)

    def _release(self, connection: Connection, error: SummariserError, failures: int) -> int:
        """Put the job back to due; gives the milliseconds that it waits."""
        shop = self.shop
        delay_ms = shop.retry.delay_ms(failures, error.retry_after, shop.rng)
        jobs.release(
            connection,
            shop.database,
            self.claim,
            delay_ms=delay_ms,
            reason=error.error_class.value,
            # The guard counts it, so the job's own count stays free for crashes.
            ended=Ended.FORESEEN,
        )
        return delay_ms

    def _skip(self, error: SummariserError) -> Skipped:
        with self._transaction() as (connection, session):
            cursors.move(connection, self.claim.session_key, CursorName.MICRO, self.plan.cursor)
            guards.clear(
                connection,
                self.claim.session_key,
                GuardName.MICRO_FAILURES,
                GuardName.ENDPOINT_FAILURES,
            )
            self._record(connection, "skipped", session, error=error)
            self._go_on(connection)
        self.shop.reach("after-commit")
        return Skipped(error.error_class)

    def _reject(
        self, *, answer: StoredAnswer | None = None, error: SummariserError | None = None
    ) -> DefragRejected:
        """Raise the session's mark by half of what the summary has now."""
        mark, key = self.plan.request.replaced_tokens * 3 // 2, self.claim.session_key
        with self._transaction() as (connection, session):
            guards.put(connection, self.shop.database, key, GuardName.DEFRAG_MARK, subject=mark)
            guards.clear(connection, key, GuardName.ENDPOINT_FAILURES)
            answers.drop(connection, key, self.plan.question)
            self._record(connection, "defrag_rejected", session, answer=answer, error=error)
            self._go_on(connection)
        self.shop.reach("after-commit")
        return DefragRejected(mark)

    def _transaction(self) -> AbstractContextManager[tuple[Connection, SessionRecord]]:
        return closing(self.shop, self.claim, revision=self.plan.session.revision)

    def _insert_summary(
        self,
        connection: Connection,
        answer: StoredAnswer,
        *,
        kind: SummaryKind,
        tokens: int,
        first_position: int,
        last_position: int,
    ) -> int:
        """Store the new version in the place of the one that the plan replaces."""
        replaces = self.plan.marker.summary_id if self.plan.marker else None
        if replaces is not None:
            summaries.set_status(connection, [replaces], SummaryStatus.SUPERSEDED)
        return summaries.insert_summary(
            connection,
            self.shop.database,
            self.claim.session_key,
            kind=kind,
            text=answer.text,
            tokens=tokens,
            first_position=first_position,
            last_position=last_position,
            replaces=replaces,
            cursor_before=self.plan.cursor_before,
            template=TEMPLATE_VERSION,
            model=answer.model,
        )

    def _conclude(
        self,
        connection: Connection,
        before: SessionRecord,
        after: SessionRecord,
        answer: StoredAnswer,
        summary_id: int,
    ) -> None:
        answers.drop(connection, self.claim.session_key, self.plan.question)
        self._record_done(connection, before, after, answer, summary_id)
        self._go_on(connection)

    def _record_done(
        self,
        connection: Connection,
        before: SessionRecord,
        after: SessionRecord,
        answer: StoredAnswer,
        summary_id: int,
    ) -> None:
        outcome = "absorbed" if self.plan.task is Task.ABSORB else "defrag"
        self._record(connection, outcome, before, after=after, answer=answer, summary_id=summary_id)

    def _go_on(self, connection: Connection) -> None:
        jobs.proceed(
            connection,
            self.shop.database,
            self.claim,
            lease_ms=self.shop.lease_ms,
            deadline_ms=self.shop.deadline_ms,
        )

    def _record(
        self,
        connection: Connection,
        outcome: str,
        before: SessionRecord,
        *,
        after: SessionRecord | None = None,
        answer: StoredAnswer | None = None,
        error: SummariserError | None = None,
        summary_id: int | None = None,
    ) -> None:
        plan = self.plan
        moved = outcome in ("absorbed", "skipped")
        record(
            self.shop,
            connection,
            self.claim,
            outcome=outcome,
            before=before,
            after=after or before,
            threshold_tokens=plan.threshold_tokens,
            cursor=plan.cursor if moved else plan.cursor_before,
            absorbed_tokens=plan.absorbed_tokens,
            summary_tokens=estimate_text(answer.text) if answer else 0,
            summary_id=summary_id,
            error_class=error.error_class if error else None,
            model=answer.model if answer else self.shop.summariser.model,
            requests=self.requests,
            prompt_tokens=answer.prompt_tokens if answer else None,
            completion_tokens=answer.completion_tokens if answer else None,
            total_ms=self.total_ms,
            model_ms=answer.model_ms if answer else 0,
        )
