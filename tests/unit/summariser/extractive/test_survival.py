"""What a placeholder still holds of a session after several rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from compaction_kit.canaries import Canary
from compaction_kit.corpus import build_random_session
from compaction_kit.generated import build_generated_session
from compaction_kit.probes import BehaviorProbe
from compaction_kit.session import SeededSession, Turn

from storage.conversations.rows import Row
from tests.benchmarks.survival import BUDGET, CLIFF, ROUNDS, Survival, randomised, seeded, survival
from tests.support.sessions.conversations import turn
from tests.support.sessions.strategies import rows_of
from workers.summariser.extractive.placeholder import placeholder

AT_LEAST = 0.66
SEEDS = range(1, 9)


def rows_in(turns: Sequence[Turn]) -> list[Row]:
    return rows_of([{"role": one.role, "content": one.text} for one in turns])


def without_labels(session: SeededSession) -> SeededSession:
    """Return the session as people write: nothing says of a line that it is a rule or a fact."""
    turns = tuple(Turn(one.role, one.text.rpartition(": ")[2]) for one in session.turns)
    return SeededSession(turns, session.canary_positions)


def check(held: Survival) -> None:
    assert len(held.shares) == ROUNDS
    assert min(held.shares) >= AT_LEAST
    assert held.lowest_of_a_type >= CLIFF


@pytest.mark.parametrize("seed", SEEDS)
def test_two_thirds_of_the_canaries_are_held_and_no_type_falls_off(seed: int) -> None:
    check(randomised(seed))


def test_the_hand_written_session_is_held_as_well() -> None:
    check(seeded())


@pytest.mark.parametrize("seed", SEEDS)
def test_they_are_found_without_labels_in_front_of_them(seed: int) -> None:
    session, canaries = build_random_session(seed)
    check(survival(without_labels(session), canaries))


def small_talk(round_num: int) -> list[Row]:
    said = ["We walk through the queue together.", "The deploy is done.", "Thank you."]
    return rows_of(
        [
            {"role": role, "content": text}
            for text in said * 10
            for role, text in (("user", text), ("assistant", "Acknowledged. I go on."))
        ]
    )


def tool_work(round_num: int) -> list[Row]:
    numbers = range(20 * round_num, 20 * round_num + 20)
    return rows_of([message for number in numbers for message in turn(number)])


def rival_session(round_num: int) -> list[Row]:
    return rows_in(build_generated_session(1_000 + round_num)[0].turns)


def curve(seed: int, more: Callable[[int], list[Row]]) -> list[float]:
    """Shares of the first round's canaries held while new rows come in every round after it."""
    session, canaries = build_random_session(seed)
    room = int(len(session.full_text()) * BUDGET)
    text, shares = "", []
    for round_num in range(ROUNDS):
        rows = more(round_num) if round_num else rows_in(session.turns)
        text = placeholder(rows, previous=text, budget_tokens=room, max_chars=room)
        shares.append(share_held(canaries, text))
    return shares


def share_held(canaries: Sequence[Canary], text: str) -> float:
    held = [one for one in canaries if BehaviorProbe().probe(one, text).survived]
    return len(held) / len(canaries)


@pytest.mark.parametrize("seed", SEEDS)
def test_new_small_talk_pushes_nothing_out(seed: int) -> None:
    shares = curve(seed, small_talk)
    assert shares[-1] >= shares[0] - 0.05
    assert min(shares) >= AT_LEAST


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hundred_steps_of_work_take_some_room_once_and_no_more(seed: int) -> None:
    shares = curve(seed, tool_work)
    assert shares[-1] >= 0.8 * shares[0]
    assert shares[-1] >= shares[1] - 0.05


@pytest.mark.parametrize("seed", SEEDS)
def test_even_new_rules_in_every_round_wear_the_old_ones_away_slowly(seed: int) -> None:
    shares = curve(seed, rival_session)
    assert all(later >= CLIFF * earlier for earlier, later in pairwise(shares))
    assert shares[-1] >= 0.25
