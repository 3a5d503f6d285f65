"""The first layer of a batch pass, with the rules of pruning themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from storage import jobs
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.support.sessions.gateways import url_of
from tests.support.sessions.tool_talk import ToolTalk, tool_talk
from workers.policy.triggers import BATCH_QUEUE, RULES, Trigger
from workers.prune import job as prune_job
from workers.prune.plan import NothingToPrune
from workers.runtime.jobs import Worked
from workers.runtime.pass_context import PassResult

NO_PROACTIVE: dict[str, Any] = {"proactive_prune_tokens": 0, "threshold_tokens": 10_000}


@pytest.fixture
def talk(database: Database) -> Iterator[ToolTalk]:
    with tool_talk(url_of(database), **NO_PROACTIVE) as made:
        made.say(*range(12))
        made.work_off()
        assert made.short() == []
        yield made


def passed(talk: ToolTalk, trigger: Trigger) -> Any:
    """Work a batch pass for a trigger; return its outcome."""
    with talk.database.write() as connection:
        jobs.enqueue(
            connection,
            talk.database,
            talk.session.key,
            kind=JobKind.BATCH,
            queue=BATCH_QUEUE,
            trigger=trigger,
            priority=RULES[trigger].priority,
        )
    worked = talk.play.work_one()
    assert isinstance(worked, Worked)
    return worked.passes[-1]


def outcomes(talk: ToolTalk) -> list[str]:
    return [row[0] for row in talk.play.rows("SELECT outcome FROM attempts ORDER BY id")]


def test_short_output_that_is_enough_spares_the_model(talk: ToolTalk) -> None:
    before = talk.record()
    done = passed(talk, Trigger.AFTER_RESPONSE)
    after = talk.record()
    assert done == PassResult(
        Outcome.PRUNED_ENOUGH, len(talk.short()), before.live_tokens, after.live_tokens
    )
    assert after.live_tokens < 10_000 <= before.live_tokens
    assert outcomes(talk) == ["pruned_enough"]
    mark = talk.guards()[GuardName.PRUNE_MARK]
    assert mark.subject == before.live_tokens
    talk.check()


def test_where_it_is_not_enough_a_summary_of_the_originals_follows(talk: ToolTalk) -> None:
    talk.say(*range(12, 50), lines=20)
    before = talk.record().live_tokens
    with tool_talk(
        url_of(talk.database),
        **{**NO_PROACTIVE, "threshold_tokens": 6_000},
    ) as smaller:
        done = passed(smaller, Trigger.PREFLIGHT)
        assert done.outcome is Outcome.COMPACTED
        assert done.tokens_before < before
        assert outcomes(smaller) == ["pruned", "compacted"]
        assert GuardName.PRUNE_MARK not in smaller.guards()
        smaller.check()


@pytest.mark.parametrize("trigger", [Trigger.MANUAL, Trigger.CONTEXT_OVERFLOW])
def test_a_person_and_an_error_get_a_summary_at_once(talk: ToolTalk, trigger: Trigger) -> None:
    assert passed(talk, trigger).outcome is Outcome.COMPACTED
    assert outcomes(talk) == ["compacted"]


def test_a_pass_that_would_free_too_little_leaves_everything_to_the_summary(
    database: Database,
) -> None:
    url = url_of(database)
    given = {**NO_PROACTIVE, "proactive_prune_min_reclaim_tokens": 100_000}
    with tool_talk(url, **given) as talk:
        talk.say(*range(12))
        talk.work_off()
        assert passed(talk, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED
        assert outcomes(talk) == ["compacted"]


def test_rules_that_fail_are_no_hindrance_for_a_summary(
    talk: ToolTalk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise LookupError("what somebody wrote")

    monkeypatch.setattr(prune_job, "plan_prune", fail)
    assert passed(talk, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED
    assert "LookupError" in caplog.text
    assert "somebody" not in caplog.text


def test_an_undo_of_the_summary_leaves_the_short_forms(talk: ToolTalk) -> None:
    talk.say(*range(12, 50), lines=20)
    url = url_of(talk.database)
    with tool_talk(url, **{**NO_PROACTIVE, "threshold_tokens": 6_000}) as smaller:
        passed(smaller, Trigger.AFTER_RESPONSE)
        assert smaller.gateway.undo(smaller.session) is not None
        assert smaller.short()
        smaller.check()
        smaller.gateway.unprune(smaller.session)
        assert smaller.short() == []
        smaller.check()


def test_the_rules_are_asked_once_for_the_trigger_of_the_pass(
    talk: ToolTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def plan(_connection: object, _key: int, _settings: object, rules: object, **_: Any) -> Any:
        asked.append(rules)
        return NothingToPrune("as the test has it")

    monkeypatch.setattr(prune_job, "plan_prune", plan)
    assert passed(talk, Trigger.AFTER_RESPONSE).outcome is Outcome.COMPACTED
    assert asked == [RULES[Trigger.AFTER_RESPONSE]]
