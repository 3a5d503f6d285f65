"""What of a session a placeholder still holds after five rounds, by typed canaries.

The canaries are those of compaction-conformance-kit: rules, constraints, facts, states and
preferences planted in a session, each counted as held while all of its exact words are there. The
room is a fifth of the session's characters in every round, and each round after the first is made
from the text of the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from compaction_kit.canaries import Canary, seeded_canaries
from compaction_kit.compacted import CompactedContext
from compaction_kit.corpus import build_random_session
from compaction_kit.generated import build_generated_session
from compaction_kit.runner import run_conformance
from compaction_kit.session import SeededSession, Turn, build_seeded_session

from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import Stage
from tests.support.sessions.strategies import rows_of
from workers.summariser.extractive.placeholder import placeholder
from workers.summariser.extractive.sections import HEADING

ROUNDS = 5
BUDGET = 0.20

CLIFF = 0.5
"""The kit speaks of a cliff where fewer than half of the canaries of one type are held."""


class PlaceholderCompactor:
    """The placeholder as the kit runs a compactor: turns in, text out."""

    name = "afterturn-placeholder"

    def compact(
        self, turns: Sequence[Turn], round_num: int = 1, budget_chars: int | None = None
    ) -> CompactedContext:
        # From the second round on the kit hands in the last text as the only turn.
        is_again = len(turns) == 1 and turns[0].text.startswith(HEADING)
        said = [turn for turn in turns if turn.role != "system"]
        text = placeholder(
            rows_of([{"role": turn.role, "content": turn.text} for turn in said]),
            previous=turns[0].text if is_again else "",
            # No text has more tokens than characters, so the kit's own measure decides.
            budget_tokens=budget_chars or 8_000,
            max_chars=budget_chars or 8_000,
        )
        return CompactedContext(text, self.name, round_num)


@dataclass(frozen=True, slots=True)
class Survival:
    """How many canaries a session held after each round, as shares: in all and by type."""

    shares: tuple[float, ...]
    by_type: tuple[Mapping[str, float], ...]

    @property
    def lowest_of_a_type(self) -> float:
        return min(share for shares in self.by_type for share in shares.values())


def survival(session: SeededSession, canaries: Sequence[Canary]) -> Survival:
    """Play `session` through ROUNDS rounds. Raises `ValueError` where a text was too long."""
    run = run_conformance(
        session,
        PlaceholderCompactor(),
        rounds=ROUNDS,
        canaries=list(canaries),
        budget_fraction=BUDGET,
    )
    if not all(result.within_budget for result in run.rounds):
        raise ValueError("a placeholder is longer than its budget")
    return Survival(
        tuple(sum(result.survived.values()) / len(canaries) for result in run.rounds),
        tuple(MappingProxyType(result.survival_by_type) for result in run.rounds),
    )


def seeded() -> Survival:
    """Return the kit's hand-written session."""
    return survival(build_seeded_session(), seeded_canaries())


def randomised(seed: int) -> Survival:
    """Return a session of the kit's randomised corpus: twenty canaries, two of them updated."""
    return survival(*build_random_session(seed))


def generated(seed: int) -> Survival:
    """Return a session of the kit's rotating corpus: ten canaries among distractors, half as
    long."""
    return survival(*build_generated_session(seed))


def canary_survival(stage: Stage, scale: Scale) -> Iterator[Figure]:
    """Report what is lost, since a figure is good below its bar."""
    seeds = range(1, scale.repeats + 1)
    detail = f"{ROUNDS} rounds at {BUDGET:.0%} of the session's characters, seeds {list(seeds)}"
    played = [randomised(seed) for seed in seeds]
    yield _lost("canaries lost, randomised corpus", played, detail, bar=34)
    yield _lost("canaries lost, hand-written session", [seeded()], detail, bar=34)
    yield _lost("canaries lost, rotating corpus", [generated(seed) for seed in seeds], detail)
    cliffs = sum(one.lowest_of_a_type < CLIFF for one in (*played, seeded()))
    yield Figure("sessions with a cliff", "none", cliffs, "sessions", 0, detail)


def _lost(name: str, played: Sequence[Survival], detail: str, bar: float | None = None) -> Figure:
    held = sum(one.shares[-1] for one in played) / len(played)
    return Figure(name, "none", 100 * (1 - held), "%", bar, detail)
