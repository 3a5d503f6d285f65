"""What a pass would do, read without changing anything."""

from __future__ import annotations

from storage.sessions import SessionRecord
from workers.batch.plan import (
    Circumstances,
    NothingToCompact,
    learned_room,
    material_of,
    plan_batch,
)
from workers.batch.preview import Preview, preview
from workers.batch.requests import write_requests
from workers.batch.span import CompactionOptions
from workers.runtime.context import Workshop
from workers.triggers import RULES, Trigger


def look(
    shop: Workshop,
    session: SessionRecord,
    wishes: CompactionOptions,
    trigger: Trigger = Trigger.MANUAL,
) -> Preview | NothingToCompact:
    """Plan the session's next pass as the job would, and tell what it comes to."""
    given = Circumstances(shop.settings.current().compression, RULES[trigger], wishes)
    with shop.database.read() as connection:
        plan = plan_batch(connection, session.key, given)
        if isinstance(plan, NothingToCompact):
            return plan
        read = material_of(connection, session.key, plan.span)
        most_room = learned_room(connection, shop, session.key)
    requests = write_requests(
        read,
        target_tokens=plan.target_tokens,
        replaced_tokens=plan.span.tokens,
        room=shop.summariser.room,
        most_room=most_room,
        focus=wishes.focus,
        today=shop.today(),
    )
    return preview(plan, requests)
