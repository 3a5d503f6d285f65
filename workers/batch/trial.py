"""One try of a batch job: what it works with, and how its transactions begin and are recorded."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from storage import answers, cursors, jobs
from storage.cursors import CursorName
from storage.jobs import Claim
from storage.sessions import SessionRecord
from workers.batch.asking import Meter
from workers.batch.heal_due import is_placeholder_shown
from workers.batch.ladder import HEAL_MS
from workers.batch.telling import Telling
from workers.calibration import Calibration
from workers.closing import closing, note, record
from workers.compression_settings import CompressionSettings
from workers.limits import session_threshold
from workers.questions import BATCH_QUESTIONS
from workers.summariser.contract import SummariserError
from workers.threshold import NoUsableWindowError
from workers.triggers import BATCH_QUEUE, RULES, Trigger, TriggerRules
from workers.workshop import Workshop

LOCAL = "local"
"""Who wrote what no model was asked for, in records."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A claimed job with the settings that held when the try began. `started` is on the
    monotonic clock, `meter` and `telling` grow with the try; `freed` are the tokens that the first
    layer has freed."""

    shop: Workshop
    claim: Claim
    rules: TriggerRules
    settings: CompressionSettings
    meter: Meter
    telling: Telling
    started: float
    freed: int = 0

    def closing(
        self, *, revision: int | None = None
    ) -> AbstractContextManager[tuple[Connection, SessionRecord]]:
        """A transaction of the job's holder; raises `StaleError` and `FenceLost`."""
        return closing(self.shop, self.claim, revision=revision)

    def is_over(self, session: SessionRecord) -> bool:
        """Whether the session's view reaches its threshold, as far as we can tell."""
        try:
            threshold = session_threshold(session, self.settings).tokens
        except NoUsableWindowError:
            return True
        return Calibration.of(session.calibration).estimate(session.live_tokens) >= threshold

    def leave(self, outcome: str) -> None:
        """Finish the job with a record of why it changed nothing."""
        with self.closing() as (connection, _):
            note(self.shop, connection, self.claim, outcome)
            self.finish(connection)

    def finish(self, connection: Connection, *, healed: bool = False) -> None:
        """Close the job, with nothing kept of what it asked; while a placeholder is shown, let it
        go on as the job that heals it (ENGINE.md §10). `healed` says that none is shown."""
        database, key = self.shop.database, self.claim.session_key
        if not healed and is_placeholder_shown(connection, key):
            jobs.go_on_as(
                connection,
                database,
                self.claim,
                queue=BATCH_QUEUE,
                trigger=Trigger.HEAL,
                strength=RULES[Trigger.HEAL].strength,
                delay_ms=HEAL_MS,
            )
            return
        answers.drop_all(connection, key, prefix=BATCH_QUESTIONS)
        jobs.finish(connection, database, self.claim)

    def afresh(self) -> Trial:
        """The same try once its failed attempt is recorded: what that cost counts once."""
        return replace(self, meter=Meter(), started=time.monotonic())

    def record_failure(
        self, connection: Connection, session: SessionRecord, error: SummariserError
    ) -> None:
        """Record an attempt that got no summary. It changed nothing."""
        self.record(
            connection,
            "failed",
            session,
            session,
            error_class=error.error_class,
            model=self.shop.summariser.model,
        )

    def record(
        self,
        connection: Connection,
        outcome: str,
        before: SessionRecord,
        after: SessionRecord,
        *,
        cursor: int | None = None,
        **facts: Any,
    ) -> None:
        """Record what the try did to the view and what it cost. `cursor` is micro's, where the
        caller has just set it."""
        try:
            threshold = session_threshold(after, self.settings).tokens
        except NoUsableWindowError:
            threshold = 0
        record(
            self.shop,
            connection,
            self.claim,
            outcome=outcome,
            before=before,
            after=after,
            threshold_tokens=threshold,
            cursor=cursors.read(connection, before.key, CursorName.MICRO)
            if cursor is None
            else cursor,
            requests=self.meter.requests,
            prompt_tokens=self.meter.prompt_tokens,
            completion_tokens=self.meter.completion_tokens,
            total_ms=int(1000 * (time.monotonic() - self.started)),
            model_ms=self.meter.model_ms,
            **facts,
        )
