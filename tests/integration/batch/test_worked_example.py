"""A long conversation from one end to the other: hygiene lets it pass, its turn is too much, and
a batch pass brings it down to head, one marker and tail."""

from __future__ import annotations

from typing import Any

from producers import Status
from storage.conversations.rows import Kind
from storage.engine import Database
from storage.outcomes import Outcome
from tests.support.model.server import ModelServer
from tests.support.sessions.gateways import as_bytes, rows_of
from tests.support.sessions.stored_session import StoredSession
from tests.support.workers.workplace import Workplace, structured
from workers.conversation.tokens import estimate_message
from workers.policy.triggers import Trigger

MESSAGES = 800
ESTIMATE = 120_000
TAIL = 20
CAP = 100_000
TAIL_BUDGET = 20_000
"""A fifth of the cap."""


def message(number: int, tokens: int) -> dict[str, Any]:
    """Return a message that is estimated at exactly so many tokens."""
    role = "assistant" if number % 2 else "user"
    made = {"role": role, "content": f"Message {number} of the migration: "}
    made["content"] += "step " * (tokens - estimate_message(made))
    while estimate_message(made) != tokens:
        too_long = estimate_message(made) > tokens
        made["content"] = made["content"][:-1] if too_long else made["content"] + "."
    return made


def conversation() -> list[dict[str, Any]]:
    """Eight hundred messages, of which the newest twenty fill the tail's budget."""
    older, rest = divmod(ESTIMATE - TAIL_BUDGET, MESSAGES - TAIL)
    sizes = [older + 1] * rest + [older] * (MESSAGES - TAIL - rest)
    sizes += [TAIL_BUDGET // TAIL] * TAIL
    return [message(number, tokens) for number, tokens in enumerate(sizes)]


def test_the_worked_example(database: Database, model: ModelServer) -> None:
    said = conversation()
    assert sum(map(estimate_message, said)) == ESTIMATE
    session = StoredSession.create(
        database, context_window=200_000, model="a-model", source="telegram"
    )
    settings = {"threshold_tokens": CAP, "protect_last_n": TAIL}
    with Workplace(session, model.base_url, compression=settings) as place:
        with place.gateway() as gateway:
            gateway.append("s", said)
            assert session.counted() == (MESSAGES, ESTIMATE)
            # Below 85 % of the window the gateway's door is open.
            assert gateway.hygiene("s").status is Status.NOT_NEEDED
            assert rows_of(database, "SELECT count(*) FROM jobs") == [(0,)]
            # What the provider counted is above the threshold.
            gateway.finalize_turn("s", [], usage={"prompt_tokens": 110_000})
            place.work()
        job = place.job()
        assert job is not None
        assert job.trigger == Trigger.AFTER_RESPONSE
        (done,) = place.work()
        assert done.outcome is Outcome.COMPACTED
        assert len(model.requests) == 1

        view = place.view()
        assert [row.kind for row in view] == [
            *[Kind.MESSAGE] * 3,
            Kind.BATCH,
            *[Kind.MESSAGE] * TAIL,
        ]
        shown = [row.message for row in view]
        assert as_bytes([one for one in shown if one]) == as_bytes([*said[:3], *said[-TAIL:]])
        marker = view[3]
        assert marker.summary == structured(model.requests[0])
        assert "Message 778 of the migration" in marker.verbatim
        assert session.counted() == session.live_rows() == (3 + 1 + TAIL, done.tokens_after)
        assert done.tokens_after < CAP

        # Every original is stored as it was said, and names the summary that took it in.
        assert as_bytes(place.everything()) == as_bytes(said)
        archived = rows_of(
            database,
            "SELECT position, active, compacted, summaries.id, summaries.kind, summaries.status "
            "FROM messages JOIN summaries ON summaries.id = messages.absorbed_by "
            "ORDER BY position",
        )
        assert archived == [
            (position, 0, 1, marker.summary_id, "batch", "live")
            for position in range(3, MESSAGES - TAIL)
        ]
        (record,) = place.tries()
        assert (record.messages_before, record.messages_after) == (MESSAGES, 3 + 1 + TAIL)
        assert record.threshold_tokens == CAP
        # What gateways are shown from now on, and that it is enough.
        with place.gateway() as gateway:
            context = gateway.load_context("s")
            assert len(context.messages) == 3 + 1 + TAIL
            assert gateway.preflight("s").go
