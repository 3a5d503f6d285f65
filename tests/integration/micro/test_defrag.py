"""The rolling summary is rewritten when it grows too long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from storage import attempts
from storage.outcomes import Outcome
from tests.support.model.server import ModelServer
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Play, Turn, micro_markers, person_rows, playing, shape
from workers.conversation.tokens import estimate_text
from workers.summariser.client import OpenAISummariser

MARK = 300


def is_defrag(request: dict[str, Any]) -> bool:
    return "rewrite the running summary" in str(request["messages"][0]["content"])


class Growing:
    """A model whose summaries grow with every exchange, and whose rewrites have a given length."""

    def __init__(self, rewrite_words: int | None) -> None:
        self.calls = 0
        self.rewrite_words = rewrite_words

    def __call__(self, request: dict[str, Any]) -> str:
        self.calls += 1
        fact = f"Booking number {self.calls} was changed, and the desk kept the receipt of it. "
        if not is_defrag(request):
            return fact * (2 * self.calls)
        if self.rewrite_words is None:
            return fact * (4 * self.calls)
        return " ".join((fact * 100).split()[: self.rewrite_words])


@contextmanager
def long_desk(url: str, answers: Growing) -> Iterator[tuple[Play, Any]]:
    with ModelServer() as model:
        model.answer(answers)
        summariser = OpenAISummariser(model="m", base_url=model.base_url, api_key="k")
        try:
            with playing(
                url,
                summariser=summariser,
                protect_last_n=4,
                threshold_tokens=2000,
                micro_compact_min_tokens=0,
                micro_compact_defrag_threshold_tokens=MARK,
            ) as play:
                session = play.gateway.open_session("long", context_window=128_000)
                for number in range(30):
                    play.say(session, Turn(turn(number, words=200), []))
                yield play, session
        finally:
            summariser.close()


def test_a_summary_over_its_mark_is_rewritten_in_place_and_no_message_moves(
    sqlite_url: str,
) -> None:
    with long_desk(sqlite_url, Growing(rewrite_words=20)) as (play, session):
        done = [outcome for job in play.work_off() for outcome in job.passes]
        rewrites = [i for i, o in enumerate(done) if o.outcome is Outcome.DEFRAGMENTED]
        assert rewrites
        assert not any(o.outcome is Outcome.DEFRAG_REJECTED for o in done)
        with play.database.read() as connection:
            tried = attempts.newest(connection, session.key, limit=200)
        for before, after in pairwise(tried):
            if after.outcome == "defragmented":
                assert after.cursor == before.cursor
                assert after.messages_after == after.messages_before
                assert after.tokens_after < after.tokens_before
        assert len(micro_markers(play.view(session))) == 1


def test_undoing_a_rewrite_brings_the_longer_summary_back(sqlite_url: str) -> None:
    with long_desk(sqlite_url, Growing(rewrite_words=20)) as (play, session):
        seen: list[list[tuple[Any, ...]]] = []
        play.gateway.load_context(session)
        while True:
            view = shape(play.view(session))
            done = play.work_one()
            if done is None:
                break
            if any(o.outcome is Outcome.DEFRAGMENTED for o in done.passes):
                seen.append(view)
        kinds = [kind for (kind,) in play.rows("SELECT kind FROM summaries ORDER BY id")]
        while kinds:
            undone = play.gateway.undo(session)
            assert undone is not None
            assert undone.kind.value == kinds.pop()
        assert not micro_markers(play.view(session))
        assert len(play.view(session)) == 30 * 4


def test_a_rewrite_that_is_not_smaller_is_refused_and_absorbing_goes_on(sqlite_url: str) -> None:
    answers = Growing(rewrite_words=None)
    with long_desk(sqlite_url, answers) as (play, session):
        done = [outcome for job in play.work_off() for outcome in job.passes]
        refused = [i for i, o in enumerate(done) if o.outcome is Outcome.DEFRAG_REJECTED]
        assert refused
        marks = [o.mark for o in done if o.outcome is Outcome.DEFRAG_REJECTED]
        assert marks == sorted(marks)
        assert marks[0] > MARK
        # Between two refusals the session is compacted further, not only tried again.
        for first, second in pairwise(refused):
            assert any(o.outcome is Outcome.ABSORBED for o in done[first:second])
        assert len(person_rows(play.view(session))) == 30
        text = micro_markers(play.view(session))[0].summary or ""
        assert estimate_text(text) > MARK
