"""What a turn enqueues: reports, sizes, guards and who else compacts decide, once each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from storage import jobs
from storage.conversations import cursors, sessions
from storage.conversations.cursors import CursorName
from storage.engine import Database
from storage.guards import GuardName
from storage.jobs import JobKind
from storage.signals import SignalKind
from tests.support.sessions.conversations import turn
from tests.support.sessions.decisions import SMALL, Case
from tests.support.sessions.gateways import assistant, url_of, user
from tests.support.sessions.play import Play, Turn, playing
from workers.conversation.tokens import estimate_message
from workers.policy.calibration import Calibration
from workers.policy.triggers import RULES, Trigger
from workers.runtime.jobs import work

CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def asked_tool() -> list[dict[str, Any]]:
    return [
        assistant(None, tool_calls=[CALL]),
        {"role": "tool", "tool_call_id": "c", "name": "look", "content": "found " * 200},
    ]


@pytest.fixture
def play(database: Database) -> Iterator[Play]:
    with playing(url_of(database)) as playing_now:
        yield playing_now


class TestReports:
    @pytest.mark.parametrize(
        ("prompt", "due"),
        [
            (149_999, {}),
            (150_000, {"batch": "after_response"}),
            (150_001, {"batch": "after_response"}),
        ],
    )
    def test_from_the_threshold_on_make_a_batch_pass_due(
        self, play: Play, prompt: int, due: dict[str, str]
    ) -> None:
        case = Case(play)
        case.say(prompt_tokens=prompt, completion_tokens=9_000)
        assert case.decide() == due

    def test_make_a_job_that_waits_in_the_queue_of_its_trigger(self, play: Play) -> None:
        case = Case(play)
        case.say(prompt_tokens=150_000)
        case.decide()
        made = play.rows("SELECT queue, priority, options FROM jobs WHERE kind = 'batch'")
        assert made == [("batch", RULES[Trigger.AFTER_RESPONSE].priority, None)]

    def test_below_a_declared_window_count_against_that(self, play: Play) -> None:
        case = Case(play, context_window=1_000_000)
        case.say(prompt_tokens=150_000)
        assert case.decide() == {}
        with play.database.write() as connection:
            sessions.declare_window(connection, case.session.key, 200_000)
        case.say(prompt_tokens=150_000)
        assert case.decide() == {"batch": "after_response"}

    @pytest.mark.parametrize(("older_by", "counts"), [(0, True), (1, False), (-1, False)])
    def test_of_another_revision_trigger_nothing_and_teach_nothing(
        self, play: Play, older_by: int, counts: bool
    ) -> None:
        case = Case(play)
        case.say(2)
        case.gateway.rewind(case.session)
        revision = case.gateway.load_context(case.session).revision
        case.say(prompt_tokens=150_000, revision=revision - older_by)
        assert case.decide() == ({"batch": "after_response"} if counts else {})
        assert (case.record().calibration is not None) is counts

    def test_of_a_view_that_was_rewound_before_the_job_ran_trigger_nothing(
        self, play: Play
    ) -> None:
        case = Case(play)
        case.say(2, prompt_tokens=150_000)
        case.gateway.rewind(case.session)
        assert case.decide() == {}

    def test_are_read_once(self, play: Play) -> None:
        case = Case(play)
        case.put(GuardName.COOLDOWN, hold_ms=60_000)
        case.say(prompt_tokens=150_000)
        assert case.decide() == {"prune": "suppressed"}
        play.work_one()
        learned = case.record().calibration
        case.clear(GuardName.COOLDOWN)
        case.say()
        assert case.decide() == {}
        assert case.record().calibration == learned

    def test_that_wait_together_are_judged_by_the_newest(self, play: Play) -> None:
        case = Case(play)
        case.say(prompt_tokens=150_000)
        case.say(prompt_tokens=20_000)
        case.say()
        assert case.decide() == {}
        assert case.calibration().samples == 1

    def test_without_a_prompt_do_nothing(self, play: Play) -> None:
        case = Case(play)
        case.say(completion_tokens=900_000)
        assert case.decide() == {}
        assert case.record().calibration is None


class TestCalibration:
    def test_of_the_first_report_is_the_difference(self, play: Play) -> None:
        case = Case(play)
        case.say(prompt_tokens=30_000)
        case.decide()
        sent = sum(estimate_message(message) for message in turn(0)[:-1])
        assert (case.calibration().additive, case.calibration().ratio) == (30_000 - sent, 1.0)
        assert case.calibration().estimate(sent) == 30_000

    def test_finds_what_the_provider_counts_while_the_session_grows_and_is_compacted(
        self, database: Database
    ) -> None:
        with playing(url_of(database), **{**SMALL, "threshold_tokens": 4_000}) as play:
            case = Case(play)
            for number in range(40):
                rows = turn(number)
                before = case.gateway.load_context(case.session)
                sent = before.tokens + sum(estimate_message(message) for message in rows[:-1])
                usage = {"prompt_tokens": round(2_000 + 1.3 * sent), "revision": before.revision}
                play.say(case.session, Turn(rows, []), usage=usage)
                play.work_off()
            learned = case.calibration()
            assert case.record().passes > 5
            assert learned.ratio == pytest.approx(1.3, rel=0.05)
            assert learned.additive == pytest.approx(2_000, rel=0.05)

    def test_is_dropped_with_the_model_and_never_comes_back_from_an_old_report(
        self, play: Play
    ) -> None:
        case = Case(play)
        case.say(prompt_tokens=30_000)
        case.decide()
        case.say(prompt_tokens=31_000)
        case.gateway.set_model(case.session, "another", context_window=200_000)
        case.decide()
        assert case.record().calibration is None
        case.say(prompt_tokens=12_000)
        case.decide()
        assert case.calibration().samples == 1
        assert case.calibration().estimate(case.record().live_tokens) < 13_000

    def test_goes_on_with_a_view_that_was_compacted_since(self, database: Database) -> None:
        with playing(url_of(database), **{**SMALL, "threshold_tokens": 6_000}) as play:
            case = Case(play)
            case.say(12, prompt_tokens=5_500)
            assert case.decide() == {"micro": "micro"}
            # The micro job has waited longer, so it compacts before this report is read.
            case.say(prompt_tokens=5_800)
            revision = case.record().revision
            micro = play.work_one()
            assert micro is not None
            assert micro.kind is JobKind.MICRO
            assert case.record().revision > revision
            case.decide()
            assert case.calibration().samples == 2

    def test_is_not_written_for_a_model_that_came_while_it_was_decided(
        self, database: Database
    ) -> None:
        def change(point: str) -> None:
            if point == "decided":
                case.gateway.set_model(case.session, "another", context_window=200_000)

        with playing(url_of(database), failpoint=change) as play:
            case = Case(play)
            case.say(prompt_tokens=30_000)
            case.decide()
            assert case.record().model == "another"
            assert case.record().calibration is None


class TestHygiene:
    @pytest.mark.parametrize(
        ("more", "due"),
        [(1, {}), (0, {"batch": "hygiene_tokens"}), (-1, {"batch": "hygiene_tokens"})],
    )
    def test_needs_no_report(self, play: Play, more: int, due: dict[str, str]) -> None:
        case = Case(play)
        case.say(3)
        limit = case.record().live_tokens + more
        window = next(w for w in range(limit, 2 * limit) if int(w * 0.85) == limit)
        case.gateway.set_model(case.session, "m", context_window=window)
        assert case.decide() == due

    def test_goes_by_the_calibrated_estimate(self, play: Play) -> None:
        case = Case(play)
        case.say(prompt_tokens=140_000)
        assert case.decide() == {}
        case.say()
        assert case.decide() == {}
        # The additive part alone is above 85 % now.
        case.gateway.open_session("s", reserved_output=40_000)
        calibration = Calibration().updated(1_000, 140_000, window=200_000)
        with play.database.write() as connection:
            sessions.calibrate(connection, case.session.key, calibration.dump())
        case.say()
        assert case.decide() == {"batch": "hygiene_tokens"}

    @pytest.mark.parametrize(
        ("messages", "due"),
        [(11, {}), (12, {"batch": "hygiene_count"}), (13, {"batch": "hygiene_count"})],
    )
    def test_counts_messages(self, database: Database, messages: int, due: dict[str, str]) -> None:
        with playing(url_of(database), hygiene_hard_message_limit=12) as play:
            case = Case(play)
            chat = [user("hello"), *(assistant(f"answer {n}") for n in range(messages - 1))]
            play.say(case.session, Turn(chat, []))
            assert case.decide() == due


class TestGuards:
    def test_of_a_cooldown_suppress_batch_and_micro_until_the_summariser_changes(
        self, database: Database
    ) -> None:
        with playing(url_of(database), **SMALL) as play:
            case = Case(play)
            fingerprint = play.context.summariser.fingerprint
            case.put(GuardName.COOLDOWN, hold_ms=60_000, subject=fingerprint)
            case.say(12, prompt_tokens=150_000)
            assert case.decide() == {"prune": "suppressed"}
            play.work_one()
            case.put(GuardName.COOLDOWN, hold_ms=60_000, subject=fingerprint + 1)
            case.say(prompt_tokens=150_000)
            assert case.decide() == {"batch": "after_response"}

    def test_never_suppress_the_count_valve_which_raises_what_waits(
        self, database: Database
    ) -> None:
        url = url_of(database)
        with playing(url) as play:
            case = Case(play)
            case.say(3, prompt_tokens=150_000)
            assert case.decide() == {"batch": "after_response"}
            case.put(GuardName.COOLDOWN, hold_ms=60_000)
            case.put(GuardName.POOR_PASSES, count=9, hold_ms=60_000)
            case.put(GuardName.UNDONE, subject=4)
        with playing(url, hygiene_hard_message_limit=16) as play:
            case = Case(play)
            case.say()
            ((turn_job,),) = play.rows("SELECT id FROM jobs WHERE kind = 'turn' AND state = 'due'")
            work(play.context, turn_job)
            assert case.open() == {"batch": "hygiene_count"}

    def test_of_a_cooldown_end_with_the_clock_of_the_database(self, database: Database) -> None:
        url = url_of(database)
        with playing(url) as play:
            case = Case(play)
            case.put(GuardName.COOLDOWN, hold_ms=600_000)
            case.say(prompt_tokens=150_000)
            assert case.decide() == {"prune": "suppressed"}
            play.work_one()
        with playing(url, offset_ms=600_000) as play:
            case = Case(play)
            case.say(prompt_tokens=150_000)
            assert case.decide() == {"batch": "after_response"}

    def test_suppress_batch_and_micro_goes_on(self, database: Database) -> None:
        with playing(url_of(database), **SMALL) as play:
            case = Case(play)
            case.put(GuardName.POOR_PASSES, count=2, hold_ms=60_000)
            case.say(12, prompt_tokens=150_000)
            assert case.decide() == {"micro": "micro", "prune": "suppressed"}

    def test_let_batch_cover_what_micro_would_absorb(self, database: Database) -> None:
        with playing(url_of(database), **SMALL) as play:
            case = Case(play)
            case.say(12, prompt_tokens=150_000)
            assert case.decide() == {"batch": "after_response"}

    def test_of_an_undo_suppress_until_the_next_turn_is_closed(self, database: Database) -> None:
        with playing(url_of(database), **SMALL) as play:
            case = Case(play)
            case.say(12)
            play.work_off()
            assert case.gateway.undo(case.session) is not None
            revision = case.record().revision
            call = asked_tool()
            rows = [user("next"), *call]
            case.gateway.append(case.session, rows, usage={"prompt_tokens": 150_000})
            assert case.decide() == {}
            usage = {"prompt_tokens": 150_000, "revision": revision}
            case.gateway.finalize_turn(case.session, [assistant("done")], usage=usage)
            assert case.decide() == {"batch": "after_response"}

    def test_of_the_main_switch_stop_everything_but_learning(self, database: Database) -> None:
        with playing(url_of(database), enabled=False, **SMALL) as play:
            case = Case(play)
            case.say(12, prompt_tokens=150_000)
            assert case.decide() == {}
            assert case.calibration().samples == 1


class TestOpenTurns:
    def test_are_looked_at_when_a_report_comes(self, play: Play) -> None:
        case = Case(play)
        rows = [user("look"), *asked_tool()]
        case.gateway.append(case.session, rows, usage={"prompt_tokens": 150_000})
        assert case.decide() == {"batch": "after_response"}

    def test_make_no_job_without_a_report(self, play: Play) -> None:
        case = Case(play)
        case.gateway.append(case.session, [user("look"), *asked_tool()])
        assert case.open() == {}

    def test_never_run_micro(self, database: Database) -> None:
        with playing(url_of(database), **SMALL) as play:
            case = Case(play)
            case.say(11)
            play.work_off()
            many = [message for number in range(9) for message in turn(number)[1:3]]
            case.gateway.append(case.session, [user("go"), *many], usage={"prompt_tokens": 1_000})
            assert case.decide() == {}
            case.gateway.finalize_turn(case.session, [assistant("done")])
            case.say()
            assert case.decide() == {"micro": "micro"}

    @pytest.mark.parametrize(
        ("rows", "sent"),
        [
            ([user("look"), *asked_tool()], 1),
            ([user("look"), *asked_tool(), assistant("found")], 3),
            ([user("look"), assistant("found")], 1),
            ([user("look")], None),
            ([user("look"), asked_tool()[1]], None),
            ([], 0),
        ],
    )
    def test_are_measured_up_to_the_last_answer(
        self, play: Play, rows: list[dict[str, Any]], sent: int | None
    ) -> None:
        case = Case(play)
        case.say()
        before = case.record().live_tokens
        case.gateway.append(case.session, rows, usage={"prompt_tokens": 1_000})
        ((measured,),) = play.rows("SELECT view_tokens FROM turn_events WHERE usage IS NOT NULL")
        expected = None if sent is None else before + sum(map(estimate_message, rows[:sent]))
        assert measured == expected


class TestSessionsThatOthersCompact:
    def test_a_codex_thread_is_asked_for_once_a_turn_and_gets_no_job(
        self, database: Database
    ) -> None:
        with playing(url_of(database), codex_app_server_auto="hermes", **SMALL) as play:
            case = Case(play, managed_by="codex")
            case.say(12, prompt_tokens=1_999)
            assert (case.decide(), case.signals()) == ({}, [])
            for _ in range(2):
                rows = [user("look"), *asked_tool()]
                case.gateway.append(case.session, rows, usage={"prompt_tokens": 2_000})
                assert case.decide() == {}
            case.say(prompt_tokens=2_001)
            assert case.decide() == {}
            (signal,) = case.signals()
            assert signal.kind is SignalKind.COMPACT_THREAD
            assert (signal.session_id, signal.facts["prompt_tokens"]) == ("s", 2_000)
            case.say()
            assert (case.decide(), len(case.signals())) == ({}, 1)
            case.say(prompt_tokens=2_002)
            assert (case.decide(), len(case.signals())) == ({}, 2)

    @pytest.mark.parametrize(
        "settings",
        [
            {"codex_app_server_auto": "native"},
            {"codex_app_server_auto": "off"},
            {"codex_app_server_auto": "hermes", "enabled": False},
        ],
    )
    def test_a_codex_thread_is_left_alone_unless_that_is_configured(
        self, database: Database, settings: dict[str, Any]
    ) -> None:
        with playing(url_of(database), **settings, **SMALL) as play:
            case = Case(play, managed_by="codex")
            case.say(12, prompt_tokens=150_000)
            assert (case.decide(), case.signals()) == ({}, [])
            assert case.record().calibration is None

    def test_what_openai_compacts_gets_our_batch_pass_at_our_threshold_alone(
        self, database: Database
    ) -> None:
        given = {"codex_responses_native": True, "hygiene_hard_message_limit": 12, **SMALL}
        with playing(url_of(database), **given) as play:
            case = Case(play, managed_by="openai", model="gpt-5.6", context_window=4_000)
            case.say(12, prompt_tokens=1_999)
            assert case.decide() == {}
            case.say(prompt_tokens=2_000)
            assert case.decide() == {"batch": "after_response"}


class Killed(BaseException):
    """The process ends here."""


class TestCrashes:
    @pytest.mark.parametrize("point", ["decided", "before-commit"])
    def test_before_the_commit_change_nothing_and_the_next_worker_decides_the_same(
        self, database: Database, point: str
    ) -> None:
        def break_off(reached: str) -> None:
            if reached == point:
                raise Killed

        url = url_of(database)
        with playing(url, failpoint=break_off) as play:
            case = Case(play)
            case.say(prompt_tokens=150_000)
            with pytest.raises(Killed):
                play.work_one()
            assert case.open() == {"turn": "turn"}
            assert case.record().calibration is None
            with play.database.read() as connection:
                assert cursors.read(connection, case.session.key, CursorName.REPORTS) == 0
        with playing(url, offset_ms=61_000) as play:
            case = Case(play)
            with play.database.write() as connection:
                assert jobs.rescue_expired(connection, play.database) == 1
            assert case.decide() == {"batch": "after_response"}
            assert case.calibration().samples == 1
