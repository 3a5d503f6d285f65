"""Replace a placeholder by a real summary of the same originals (ENGINE.md §10)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from storage import guards, messages, sessions, summaries
from storage.answers import StoredAnswer
from storage.rows import Kind, Row
from storage.sessions import SessionRecord
from storage.signals import SignalKind
from storage.summaries import SummaryKind, SummaryRecord, SummaryStatus
from workers.batch.budget import summary_budget
from workers.batch.compacting import OF_FAILURES
from workers.batch.material import Material, opened
from workers.batch.outcomes import Healed
from workers.batch.substitution import Substitute
from workers.batch.telling import figures
from workers.batch.trial import Trial
from workers.closing import StaleError
from workers.limits import session_window
from workers.summariser.structured_prompts import BATCH_TEMPLATE_VERSION
from workers.tokens import estimate_text


@dataclass(frozen=True, slots=True)
class HealPlan:
    """The placeholder that is shown, and the originals that it stands for."""

    session: SessionRecord
    placeholder: SummaryRecord
    given: Material
    target_tokens: int


def plan_heal(connection: Connection, key: int) -> HealPlan | None:
    """What to heal; None where no placeholder is shown."""
    shown = _shown(messages.read_markers(connection, key))
    if shown is None or shown.summary_id is None:
        return None
    placeholder = summaries.fetch(connection, shown.summary_id)
    if placeholder.kind is not SummaryKind.PLACEHOLDER:
        return None
    session = sessions.fetch(connection, key)
    given = opened(connection, key, [shown])
    return HealPlan(
        session=session,
        placeholder=placeholder,
        given=given,
        target_tokens=summary_budget(given.tokens, session_window(session)),
    )


def _shown(markers: list[Row]) -> Row | None:
    return next((marker for marker in markers if marker.kind is Kind.BATCH), None)


def heal(trial: Trial, plan: HealPlan, answer: StoredAnswer) -> Healed:
    """Let the marker show the real summary where it is. No message moves; the view may grow.

    Raises `StaleError` and `FenceLost` having written nothing.
    """
    old, database = plan.placeholder, trial.shop.database
    new = Substitute(SummaryKind.HEALED, answer.text, old.verbatim, answer.model)
    with trial.closing(revision=plan.session.revision) as (connection, before):
        summary_id = summaries.insert_summary(
            connection,
            database,
            before.key,
            kind=new.kind,
            text=new.text,
            verbatim=new.verbatim,
            tokens=new.tokens,
            first_position=old.first_position,
            last_position=old.last_position,
            replaces=old.id,
            cursor_before=old.cursor_before,
            template=BATCH_TEMPLATE_VERSION,
            model=new.model,
        )
        summaries.set_status(connection, [old.id], SummaryStatus.SUPERSEDED)
        changed = messages.change_marker(
            connection, before.key, shows=old.id, summary_id=summary_id, tokens=new.tokens
        )
        if changed != 1:
            raise StaleError
        guards.clear(connection, before.key, *OF_FAILURES)
        change = new.tokens - old.tokens
        after = sessions.count_change(
            connection, before.key, messages=0, tokens=change, passes=1, saved=-change
        )
        trial.record(
            connection,
            "healed",
            before,
            after,
            absorbed_tokens=plan.given.tokens,
            summary_tokens=estimate_text(answer.text),
            summary_id=summary_id,
            model=answer.model,
        )
        trial.telling.tell(connection, SignalKind.HEALED, **figures(before, after))
        trial.finish(connection)
    trial.shop.reach("after-commit")
    return Healed(len(plan.given.rows), before.live_tokens, after.live_tokens)
