"""Any order of turns, failures, successes, restarts, manual runs, rewinds and undos.

A state machine plays two owners' sessions with small windows and a summariser that fails in
every way. After every step the invariants hold; at the end everything is worked off, replaced and
undone, and what was said is there as it was said.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from storage.engine import Database
from storage.guards import GuardName
from tests.support.machine.stage import Event, Incident, Stage
from tests.support.machine.summariser import GOOD_ANSWERS, LARGE_ROOM, LASTING_ANSWERS, Act, Answer
from tests.support.machine.talks import OVERFLOW, TOO_LARGE
from tests.support.machine.turns import SECRETS, AnyShape, Kind, Shape, shapes
from tests.tiers import examples, is_soak
from workers.policy.triggers import Trigger
from workers.summariser.contract import ErrorClass

WINDOWS = (128_000, 128_000, 8_000, 4_000, 2_000)
MINUTE, DAY = 60_000, 86_400_000
ROOMS = (LARGE_ROOM, LARGE_ROOM, 20_000, 3_000)

who = st.sampled_from((0, 0, 0, 1))
usages = st.sampled_from((None, None, {"prompt_tokens": 100}, {"prompt_tokens": 100_000}))
failures = st.one_of(st.sampled_from(Answer), st.sampled_from(ErrorClass))
acts = st.one_of(st.sampled_from(GOOD_ANSWERS), failures)
lasting_acts = st.one_of(
    st.sampled_from(GOOD_ANSWERS), st.sampled_from(LASTING_ANSWERS), st.sampled_from(ErrorClass)
)
between = st.sampled_from(("claimed", "decided", "planned", "asked", "replied", "answered"))
incidents = st.one_of(
    st.builds(Incident, point=between, event=st.sampled_from(Event), after=st.integers(0, 1)),
    st.builds(
        Incident,
        point=st.sampled_from(("before-commit", "after-commit", "gave-up", "fell-back")),
        event=st.sampled_from((Event.DIES, Event.FAILS)),
        after=st.integers(0, 2),
    ),
)
configurations = st.fixed_dictionaries(
    {
        "threshold_tokens": st.sampled_from((1000, 2000, 4000)),
        "target_ratio": st.sampled_from((0.05, 0.2)),
        "protect_first_n": st.integers(0, 3),
        "protect_last_n": st.integers(3, 6),
        "min_tail_user_messages": st.integers(1, 2),
        "summary_attempts": st.integers(1, 3),
        "exhausted_after": st.integers(1, 3),
        "abort_on_summary_failure": st.booleans(),
        "verbatim_user_tokens": st.sampled_from((0, 200, 2000)),
        "micro_compact": st.sampled_from((True, True, False)),
        "micro_compact_every_n_turns": st.integers(1, 2),
        "micro_compact_min_tokens": st.sampled_from((0, 100, 300)),
        "micro_compact_defrag_threshold_tokens": st.sampled_from((60, 200, 2000)),
        "hygiene_hard_message_limit": st.sampled_from((20, 60, 5000)),
        "failure_cooldown_seconds": st.sampled_from((0, 600)),
        "progress_notices": st.booleans(),
    }
)
PRUNING = {
    "proactive_prune_tokens": 300,
    "proactive_prune_min_result_chars": 200,
    "proactive_prune_min_reclaim_tokens": 100,
}
places = st.integers(0, 60)
options: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"focus": st.sampled_from(("fares", f"the password: {SECRETS[2]}"))}),
    st.fixed_dictionaries({"keep_last": st.integers(1, 4)}),
    st.fixed_dictionaries({"up_to": places}),
    st.fixed_dictionaries({"around": places}),
)
Usage: TypeAlias = dict[str, int] | None
GATEWAY_ASKS: dict[str, Callable[[Stage, int], None]] = {
    "preflight": lambda stage, who: stage.preflight(who),
    "preflight of a small request": lambda stage, who: stage.preflight(who, 100),
    "preflight of a large request": lambda stage, who: stage.preflight(who, 500_000),
    "hygiene": lambda stage, who: stage.hygiene(who),
    "engine": lambda stage, who: stage.request(who),
    "context overflow": lambda stage, who: stage.report(who, OVERFLOW),
    "payload too large": lambda stage, who: stage.report(who, TOO_LARGE),
    "another error": lambda stage, who: stage.report(who, {"status": 500}),
}
OPERATOR_ACTS: dict[str, Callable[[Stage, int], None]] = {
    "switch off": lambda stage, _: stage.configure(enabled=False),
    "switch on": lambda stage, _: stage.configure(enabled=True, micro_compact=True),
    "one attempt": lambda stage, _: stage.configure(summary_attempts=1),
    "abort": lambda stage, _: stage.configure(abort_on_summary_failure=True),
    "do not abort": lambda stage, _: stage.configure(abort_on_summary_failure=False),
    "another summariser": lambda stage, _: stage.change_summariser("gpt-9"),
    "the summariser again": lambda stage, _: stage.change_summariser(""),
    "clear guards": lambda stage, who: stage.clear_guards(
        who, GuardName.COOLDOWN, GuardName.POOR_PASSES
    ),
    "restart": lambda stage, _: stage.restart(),
    "notify again": lambda stage, _: stage.work_again(),
    "all is well again": lambda stage, _: stage.recover(),
}


class Sessions(RuleBasedStateMachine):
    """The rules: whatever gateways, people, operators, workers, models and time may do."""

    database: Database

    @initialize(
        compression=configurations,
        window=st.sampled_from(WINDOWS),
        first=st.lists(shapes(), max_size=4),
        more=st.integers(0, 10),
    )
    def begin(
        self, compression: dict[str, Any], window: int, first: list[AnyShape], more: int
    ) -> None:
        self.stage = Stage(self.database, window=window, **PRUNING, **compression)
        for shape in (*first, *[Shape(Kind.TOOLS)] * more):
            self.stage.say(0, shape)

    # Gateways and people.

    @rule(who=who, shape=shapes(), usage=usages, goes_on=st.booleans(), works=st.booleans())
    def a_turn_ends(
        self, who: int, shape: AnyShape, usage: Usage, goes_on: bool, works: bool
    ) -> None:
        if goes_on:
            self.stage.begin(who, shape, usage=usage)
        else:
            self.stage.say(who, shape, usage=usage)
        if works:
            self.stage.work_off()

    @rule(who=who, shape=shapes(), turns=st.integers(2, 6), acts=st.lists(acts, max_size=3))
    def turns_end_and_are_worked(
        self, who: int, shape: AnyShape, turns: int, acts: list[Act]
    ) -> None:
        self.stage.summariser.next.extend(acts)
        for _ in range(turns):
            self.stage.say(who, shape)
            self.stage.work_off()

    @rule(who=who)
    def a_result_comes_late_and_a_turn_is_sent_again(self, who: int) -> None:
        self.stage.answer_late(who)
        self.stage.repeat(who)

    @rule(who=who, ask=st.sampled_from(tuple(GATEWAY_ASKS)), works=st.booleans())
    def a_gateway_asks(self, who: int, ask: str, works: bool) -> None:
        GATEWAY_ASKS[ask](self.stage, who)
        if works:
            self.stage.work_off()

    @rule(who=who, options=options, gives_up=st.booleans())
    def a_person_compacts(self, who: int, options: dict[str, Any], gives_up: bool) -> None:
        self.stage.compact(who, **options)
        if gives_up:
            self.stage.withdraw(who)
        else:
            self.stage.work_off()

    @rule(who=who, passes=st.integers(1, 5))
    def passes_are_undone(self, who: int, passes: int) -> None:
        for _ in range(passes):
            self.stage.undo(who)

    @rule(who=who, turns=st.integers(1, 4), by_position=st.booleans())
    def turns_are_rewound(self, who: int, turns: int, by_position: bool) -> None:
        self.stage.rewind(who, turns, by_position=by_position)

    @rule(who=who, window=st.sampled_from(WINDOWS), model=st.sampled_from(("m", "o3")))
    def the_model_is_changed(self, who: int, window: int, model: str) -> None:
        self.stage.set_model(who, model, window)

    # Workers and models.

    @rule(incident=incidents)
    def a_job_is_worked_and_something_happens(self, incident: Incident) -> None:
        self.stage.work_one(Incident(incident.point, incident.event, incident.after))

    @rule(who=who, trigger=st.sampled_from(Trigger), acts=st.lists(acts, max_size=3), at=incidents)
    def a_pass_is_worked_and_something_happens(
        self, who: int, trigger: Trigger, acts: list[Act], at: Incident
    ) -> None:
        self.stage.summariser.next.extend(acts)
        self.stage.trigger(who, trigger)
        self.stage.work_one(Incident(at.point, at.event, at.after))

    @rule(who=who, trigger=st.sampled_from(Trigger), acts=st.lists(acts, min_size=1, max_size=4))
    def a_summary_is_asked_for_again_and_again(
        self, who: int, trigger: Trigger, acts: list[Act]
    ) -> None:
        self.stage.summariser.next.extend(acts)
        self.stage.trigger(who, trigger)
        for _ in acts:
            self.stage.work_off()
            self.stage.wait_for_next()

    @rule(who=who, works=st.booleans(), error=st.sampled_from(ErrorClass), abort=st.booleans())
    def a_full_session_cannot_be_compacted(
        self, who: int, works: bool, error: ErrorClass, abort: bool
    ) -> None:
        self.stage.configure(abort_on_summary_failure=abort, exhausted_after=1)
        self.stage.set_model(who, "m", 1_500)
        self.stage.say(who, Shape(Kind.TOOLS, 200, 3))
        self.stage.summariser.usually = error
        self.stage.compact(who)
        if works:
            for _ in range(3):
                self.stage.work_off()
                self.stage.wait_for_next()

    @rule(act=lasting_acts, chars=st.sampled_from(ROOMS))
    def the_summariser_usually_does(self, act: Act, chars: int) -> None:
        self.stage.summariser.usually = act
        self.stage.summariser.chars = chars

    # Operators and time.

    @rule(act=st.sampled_from(tuple(OPERATOR_ACTS)), who=who)
    def an_operator_acts(self, act: str, who: int) -> None:
        OPERATOR_ACTS[act](self.stage, who)

    @rule(ms=st.sampled_from((0, MINUTE, 5 * MINUTE, 11 * MINUTE, DAY)), works=st.booleans())
    def time_passes(self, ms: int, works: bool) -> None:
        if ms:
            self.stage.pass_by(ms)
        else:
            self.stage.end_leases()
            self.stage.wait_for_next()
        if works:
            self.stage.work_off()

    @invariant()
    def the_invariants_hold(self) -> None:
        if hasattr(self, "stage"):
            self.stage.check()

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        with self.stage:
            if sys.exc_info()[0] is not None:
                return
            self.stage.recover()
            self.stage.check()
            self.stage.check_texts()
            self.stage.undo_everything()
            self.stage.check()
            self.stage.say(0, Shape())
            self.stage.work_off()
            self.stage.check()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("lasting_database", "usual"),
    [("sqlite", 15), pytest.param("postgresql", 8, marks=pytest.mark.soak)],
    indirect=["lasting_database"],
)
def test_the_invariants_hold_in_any_order_of_events(database: Database, usual: int) -> None:
    class Machine(Sessions):
        pass

    Machine.database = database
    run_state_machine_as_test(
        Machine,
        settings=examples(
            usual,
            any_health=True,
            stateful_step_count=40,
            derandomize=not is_soak(),
            database=None,
        ),
    )
