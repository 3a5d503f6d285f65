"""Pruning of a stored session, on both databases: triggers, job, mark, and the way back."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from producers import (
    Gateway,
    HandleError,
    OutputNotFound,
    SessionNotFound,
    StorageError,
)
from storage import jobs
from storage.conversations import sessions
from storage.guards import GuardName
from storage.jobs import JobKind
from storage.outcomes import Outcome
from tests.support.sessions.chat import assistant, result, user
from tests.support.sessions.play import Turn
from tests.support.sessions.pruning import call
from tests.support.sessions.tool_talk import log, log_turn, tool_talk
from workers.prune.commit import PRUNE_QUEUE, PruneTrigger
from workers.prune.job import prune_pass
from workers.runtime.jobs import Worked, work
from workers.runtime.pass_context import PassResult
from workers.runtime.passes import run_passes


def test_a_size_that_is_reached_has_old_output_shortened_and_the_original_stays(
    database_url: str,
) -> None:
    with tool_talk(database_url) as talk:
        talk.say(*range(12))
        before = talk.record()
        originals = talk.originals()
        (done,) = talk.work_off()
        assert done.outcome is Outcome.PRUNED
        after = talk.record()
        assert (done.tokens_before, done.tokens_after) == (before.live_tokens, after.live_tokens)
        assert after.live_tokens < before.live_tokens / 2
        assert after.tokens_saved == before.live_tokens - after.live_tokens
        assert (after.revision, after.live_messages) == (before.revision + 1, 48)
        assert len(talk.short()) == done.rows == 7
        assert talk.originals() == originals
        talk.check()
        context = talk.gateway.load_context(talk.session)
        assert context.tokens == after.live_tokens
        shown = context.messages[6]
        assert shown["content"] == (
            '⟦output left out: bash(command="make run-1") gave 120 lines, 3,730 characters; '
            f"whole: out-{talk.session.key}-6⟧"
        )
        assert context.messages[-2]["content"] == log(11)


def test_the_view_is_the_same_on_both_databases(sqlite_url: str, postgres_url: str) -> None:
    contexts = []
    for url in (sqlite_url, postgres_url):
        with tool_talk(url) as talk:
            talk.say(*range(12))
            talk.work_off()
            contexts.append(talk.gateway.load_context(talk.session))
    assert contexts[0] == contexts[1]
    assert "out-1-6" in contexts[0].messages[6]["content"]


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"proactive_prune_tokens": 0}, {}),
        ({"proactive_prune_tokens": 14_000}, {}),
        ({"enabled": False}, {}),
        ({}, {"managed_by": "codex"}),
    ],
)
def test_below_the_size_or_switched_off_nothing_asks_for_it(
    sqlite_url: str, settings: dict[str, Any], facts: dict[str, Any]
) -> None:
    with tool_talk(sqlite_url, **settings) as talk:
        talk.gateway.open_session("s", **facts)
        talk.say(*range(12))
        assert 12_000 < talk.record().live_tokens < 14_000
        assert talk.work_off() == []
        assert talk.short() == []


@pytest.mark.parametrize(
    ("name", "facts", "asks"),
    [
        (GuardName.COOLDOWN, {"hold_ms": 60_000}, True),
        (GuardName.POOR_PASSES, {"hold_ms": 60_000, "count": 2}, True),
        (GuardName.POOR_PASSES, {"hold_ms": 60_000, "count": 1}, False),
    ],
)
def test_while_summaries_rest_a_session_over_its_threshold_is_pruned(
    database_url: str, name: GuardName, facts: dict[str, Any], asks: bool
) -> None:
    given = {"proactive_prune_tokens": 0, "threshold_tokens": 10_000}
    with tool_talk(database_url, **given) as talk:
        talk.put(name, **facts)
        talk.say(*range(12))
        done = talk.work_off()
        assert bool(done) is asks
        assert bool(talk.short()) is asks
        if asks:
            (trigger,) = talk.play.rows("SELECT trigger FROM jobs WHERE kind = 'prune'")
            assert trigger == (PruneTrigger.SUPPRESSED,)
            talk.check()


def test_the_job_has_its_own_queue_and_task(sqlite_url: str) -> None:
    with tool_talk(sqlite_url) as talk:
        talk.say(*range(12))
        talk.play.work_one()
        found = talk.play.rows("SELECT kind, queue, trigger FROM jobs WHERE state = 'due'")
        assert found == [("prune", PRUNE_QUEUE, "proactive")]


def freeable_tokens(nothing: PassResult) -> int:
    """Return how much could have been freed, as the reason says."""
    found = re.fullmatch(r"only ([\d,]+) tokens could be freed", nothing.reason)
    assert found is not None
    return int(found[1].replace(",", ""))


def test_what_would_free_too_little_is_left_alone_until_enough_has_come_in(
    database_url: str,
) -> None:
    with tool_talk(database_url, proactive_prune_min_reclaim_tokens=8_000) as talk:
        talk.say(*range(9))
        (nothing,) = talk.work_off()
        assert nothing.outcome is Outcome.NOTHING_DUE
        freeable = freeable_tokens(nothing)
        assert 0 < freeable < 8_000
        live = talk.record().live_tokens
        mark = talk.guards()[GuardName.PRUNE_MARK]
        assert mark.subject == live + 8_000 - freeable
        assert talk.short() == []
        talk.say(9)
        assert talk.work_off() == []
        talk.say(*range(10, 16))
        (done,) = talk.work_off()
        assert done.outcome is Outcome.PRUNED
        assert done.tokens_before - done.tokens_after >= 8_000


def test_after_a_pass_the_next_one_comes_only_when_as_much_has_come_in_again(
    database_url: str,
) -> None:
    with tool_talk(database_url) as talk:
        talk.say(*range(12))
        (done,) = talk.work_off()
        assert done.outcome is Outcome.PRUNED
        freed = done.tokens_before - done.tokens_after
        assert talk.guards()[GuardName.PRUNE_MARK].subject == done.tokens_after + freed
        number = 12
        while talk.record().live_tokens < done.tokens_after + freed - 1_200:
            talk.say(number)
            assert talk.work_off() == []
            number += 1
        talk.say(number, number + 1)
        (again,) = talk.work_off()
        assert again.outcome is Outcome.PRUNED
        assert again.rows < number
        talk.check()


def test_the_mark_is_stored_and_another_model_knows_nothing_of_it(sqlite_url: str) -> None:
    with tool_talk(sqlite_url) as talk:
        talk.say(*range(12))
        talk.work_off()
    with tool_talk(sqlite_url, proactive_prune_tokens=1_000) as talk:
        talk.say(12)
        assert talk.work_off() == []
        talk.gateway.set_model(talk.session, "another", context_window=128_000)
        talk.say(13)
        (looked,) = talk.work_off()
        assert looked.outcome is Outcome.PRUNED


def test_a_batch_pass_clears_the_mark_and_reads_the_originals(database_url: str) -> None:
    with tool_talk(database_url) as talk:
        talk.say(*range(12))
        talk.work_off()
        assert GuardName.PRUNE_MARK in talk.guards()
        read: list[str] = []
        summarise = talk.play.context.summariser.summarise

        class Listening:
            def __getattr__(self, name: str) -> Any:
                return getattr(talk.play.context.summariser, name)

            def summarise(self, request: Any, stop: Any) -> Any:
                read.extend(one.text for one in request.passages)
                return summarise(request, stop)

        talk.gateway.compact(talk.session)
        with talk.database.write() as connection:
            (due,) = jobs.notify_due(connection, talk.database, again_after_ms=-1, limit=1)
        context = replace(talk.play.context, summariser=Listening())
        assert isinstance(work(context, due.id), Worked)
        assert GuardName.PRUNE_MARK not in talk.guards()
        assert any(log(5)[:300] in text for text in read)
        assert not any("left out:" in text for text in read)
        talk.check()
        undone = talk.gateway.undo(talk.session)
        assert undone is not None
        assert len(talk.short()) == 7
        talk.check()


def test_showing_in_full_again_brings_every_byte_back_and_automatic_passes_wait(
    database_url: str,
) -> None:
    with tool_talk(database_url) as talk:
        talk.say(*range(12))
        whole = talk.gateway.load_context(talk.session)
        before = talk.record()
        (done,) = talk.work_off()
        assert done.outcome is Outcome.PRUNED
        back = talk.gateway.unprune(talk.session)
        assert (back.messages, back.tokens) == (7, done.tokens_before - done.tokens_after)
        now = talk.record()
        assert talk.gateway.load_context(talk.session).messages == whole.messages
        assert (now.live_tokens, now.tokens_saved) == (before.live_tokens, before.tokens_saved)
        assert now.revision == before.revision + 2
        assert talk.guards()[GuardName.UNDONE].subject == 12
        talk.check()
        talk.say(12)
        assert talk.work_off() == []
        nothing = talk.gateway.unprune(talk.session)
        assert (nothing.messages, nothing.tokens) == (0, 0)
        assert talk.record().revision == now.revision


def test_archived_rows_come_back_in_full_too(database_url: str) -> None:
    with tool_talk(database_url) as talk:
        talk.say(*range(12))
        whole = talk.gateway.load_context(talk.session)
        talk.work_off()
        talk.gateway.compact(talk.session)
        talk.work_off()
        assert talk.live() < 48
        talk.gateway.unprune(talk.session)
        talk.check()
        talk.gateway.undo(talk.session)
        talk.check()
        assert talk.gateway.load_context(talk.session).messages == whole.messages


def test_a_rewind_shows_in_full_what_pointed_at_an_output_that_is_gone(
    database_url: str,
) -> None:
    def same(number: int) -> list[dict[str, Any]]:
        return [
            user(f"Again, {number}."),
            call("read_file", {"path": "a.py"}),
            result("c", "the same file, unchanged. " * 30),
            assistant("Read."),
        ]

    given = {
        "proactive_prune_min_reclaim_tokens": 0,
        "proactive_prune_tokens": 100,
        "threshold_tokens": 1_500,
    }
    with tool_talk(database_url, **given) as talk:
        for number in range(6):
            talk.play.say(talk.session, Turn(same(number), []))
        talk.work_off()
        short = talk.short()
        assert short
        newest = 4 * 5 + 2
        assert talk.play.rows("SELECT DISTINCT same_as FROM messages WHERE pruned IS NOT NULL") == [
            (newest,)
        ]
        talk.gateway.rewind(talk.session, turns=1)
        assert talk.short() == []
        talk.check()
        assert all("same output" not in str(content) for content in talk.contents())


def test_a_rewind_leaves_short_what_points_at_nothing(database_url: str) -> None:
    with tool_talk(database_url) as talk:
        talk.say(*range(12))
        talk.work_off()
        short = talk.short()
        talk.gateway.rewind(talk.session, turns=2)
        assert talk.short() == short
        talk.check()
        talk.gateway.rewind(talk.session, turns=9)
        assert talk.short() == []
        talk.check()


class TestFetching:
    def test_gives_the_whole_output_while_it_is_live_and_when_it_is_archived(
        self, database_url: str
    ) -> None:
        with tool_talk(database_url) as talk:
            talk.say(*range(12))
            talk.work_off()
            handle = f"out-{talk.session.key}-6"
            found = talk.gateway.fetch_output(f" {handle}\n")
            assert (found.text, found.pruned, found.position) == (log(1), True, 6)
            assert (found.session_id, found.handle) == ("s", handle)
            assert found.message == log_turn(1)[2]
            talk.gateway.compact(talk.session)
            talk.work_off()
            assert talk.gateway.fetch_output(handle).text == log(1)
            wrote = talk.gateway.fetch_output(f"out-{talk.session.key}-5")
            assert wrote.text == 'bash({"command": "make run-1"})'

    def test_finds_nothing_of_another_owner(self, database_url: str) -> None:
        with tool_talk(database_url) as talk:
            talk.say(0)
            handle = f"out-{talk.session.key}-2"
            with (
                Gateway(owner="another", database=talk.database) as other,
                pytest.raises(OutputNotFound) as refused,
            ):
                other.fetch_output(handle)
            assert refused.value.handle == handle
            assert isinstance(refused.value, StorageError)

    def test_finds_nothing_that_was_rewound_or_never_was(self, database_url: str) -> None:
        with tool_talk(database_url) as talk:
            talk.say(0, 1)
            talk.gateway.rewind(talk.session)
            for position in (6, 400):
                with pytest.raises(OutputNotFound):
                    talk.gateway.fetch_output(f"out-{talk.session.key}-{position}")

    @pytest.mark.parametrize("handle", ["", "out-1", "6", "out-1-2-3", "out--1-2", "out-01-2"])
    def test_refuses_what_is_no_handle(self, sqlite_url: str, handle: str) -> None:
        with tool_talk(sqlite_url) as talk, pytest.raises(HandleError, match="out-12-345"):
            talk.gateway.fetch_output(handle)


class TestWhileOthersWork:
    def test_a_session_that_changes_meanwhile_is_planned_anew(self, database_url: str) -> None:
        changed: list[str] = []

        def change(point: str) -> None:
            if point == "planned" and not changed:
                changed.append(point)
                talk.gateway.rewind(talk.session, turns=1)

        with tool_talk(database_url, failpoint=change) as talk:
            talk.say(*range(13))
            stale, done = talk.work_off()
            assert stale.outcome is Outcome.STALE
            assert done.outcome is Outcome.PRUNED
            talk.check()

    def test_turns_that_come_in_meanwhile_are_no_hindrance(self, database_url: str) -> None:
        said: list[str] = []

        def speak(point: str) -> None:
            if point == "planned" and not said:
                said.append(point)
                talk.say(12)

        with tool_talk(database_url, failpoint=speak) as talk:
            talk.say(*range(12))
            (done,) = talk.work_off()
            assert done.outcome is Outcome.PRUNED
            assert talk.contents()[-2] == log(12)
            talk.check()

    def test_a_worker_without_its_lease_changes_nothing(self, database_url: str) -> None:
        with tool_talk(database_url) as talk:
            talk.say(*range(12))
            talk.play.work_one()
            (job,) = talk.play.rows("SELECT id FROM jobs WHERE kind = 'prune'")
            with talk.database.write() as connection:
                claim = jobs.claim(
                    connection,
                    talk.database,
                    job[0],
                    lease_owner="late",
                    lease_ms=60_000,
                    deadline_ms=60_000,
                )
                assert claim is not None
            with talk.database.write() as connection:
                sessions.lock(connection, talk.session.key)
                assert jobs.fence_out(connection, talk.database, talk.session.key, JobKind.PRUNE)
            report = run_passes(talk.play.context, claim, prune_pass)
            assert report.results[-1].outcome is Outcome.HANDED_BACK
            assert talk.short() == []

    def test_a_crash_before_the_commit_changes_nothing_and_the_next_worker_does_it(
        self, database_url: str
    ) -> None:
        class Killed(BaseException):
            pass

        def kill(point: str) -> None:
            if point == "before-commit" and armed:
                raise Killed

        armed: list[bool] = []
        with tool_talk(database_url, failpoint=kill) as talk:
            talk.say(*range(12))
            talk.play.work_one()
            before = talk.record()
            armed.append(True)
            with pytest.raises(Killed):
                talk.play.work_one()
            assert talk.record() == before
            assert talk.short() == []
        with tool_talk(database_url, offset_ms=61_000) as talk:
            with talk.database.write() as connection:
                assert jobs.rescue_expired(connection, talk.database) == 1
            (done,) = talk.work_off()
            assert done.outcome is Outcome.PRUNED

    def test_a_worker_that_stops_hands_the_job_back(self, sqlite_url: str) -> None:
        with tool_talk(sqlite_url) as talk:
            talk.say(*range(12))
            talk.play.work_one()
            context = replace(talk.play.context, stopping=lambda: True)
            (job,) = talk.play.rows("SELECT id FROM jobs WHERE kind = 'prune'")
            done = work(context, job[0])
            assert isinstance(done, Worked)
            assert [one.outcome for one in done.passes] == [Outcome.HANDED_BACK]
            assert talk.work_off()

    def test_the_open_turn_is_left_alone(self, database_url: str) -> None:
        with tool_talk(database_url) as talk:
            rows = [user("a long task")]
            for number in range(14):
                rows += log_turn(number)[1:3]
            usage = {"prompt_tokens": 15_000}
            talk.gateway.append(talk.session, rows, usage=usage)
            (nothing,) = talk.work_off()
            assert nothing.outcome is Outcome.NOTHING_DUE
            talk.gateway.finalize_turn(talk.session, [assistant("done")])
            talk.say(20)
            talk.put(GuardName.PRUNE_MARK, subject=0, count=128_000, detail="m")
            talk.say(21)
            (done,) = talk.work_off()
            assert done.outcome is Outcome.PRUNED


def test_a_note_in_the_place_of_content_is_reported_in_the_receipt(sqlite_url: str) -> None:
    with tool_talk(sqlite_url) as talk:
        talk.say(*range(12))
        talk.work_off()
        copied = talk.contents()[6]
        turn = [
            user("Write down what came out."),
            call("write_file", {"path": "log.txt", "content": copied}),
            result("c", "written"),
            assistant(f"It says {copied}"),
        ]
        receipt = talk.gateway.finalize_turn(talk.session, turn, event_id="e")
        assert receipt.copied_notes == (49,)
        assert talk.gateway.finalize_turn(talk.session, turn, event_id="e").copied_notes == (49,)
        talk.say(12)


def test_a_session_of_another_owner_is_not_shown_in_full(sqlite_url: str) -> None:
    with (
        tool_talk(sqlite_url) as talk,
        Gateway(owner="another", database=talk.database) as other,
        pytest.raises(SessionNotFound),
    ):
        other.unprune("s")
