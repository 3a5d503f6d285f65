"""What the monkey of a chaos run does, and in which order: decided by a seed alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.chaos.doom import POINTS


class Act(StrEnum):
    """Something that goes wrong. The text is what the tally calls it."""

    KILL = "worker killed at any moment"
    KILL_AT = "worker killed at a step of a job"
    KILL_ALL = "all workers killed at once"
    FREEZE = "worker stopped past its lease"
    FREEZE_AT = "worker stopped past its lease at a step of a job"
    RESTART = "worker restarted with SIGTERM"
    ROLL = "all workers restarted one after the other"
    KILL_GATEWAY = "gateway killed"
    KILL_BEAT = "beat killed"
    KILL_REDIS = "Redis killed, back empty"
    HANG_REDIS = "Redis hung"
    HANG_REDIS_LONG = "Redis hung for longer than a worker waits"
    RESTART_DATABASE = "PostgreSQL restarted"
    CRASH_DATABASE = "PostgreSQL killed"
    SHUFFLE_NOTIFICATIONS = "notifications delivered twice and out of order"
    INVENT_NOTIFICATIONS = "notifications of jobs of any state"
    PAUSE_QUEUE = "queue paused for a while"
    FAIL_MODEL = "model failed for a while"
    SLOW_MODEL = "model slow for a while"


KILLS = frozenset({Act.KILL, Act.KILL_AT, Act.KILL_ALL})

OF_REDIS = frozenset(
    {
        Act.KILL_BEAT,
        Act.KILL_REDIS,
        Act.HANG_REDIS,
        Act.HANG_REDIS_LONG,
        Act.SHUFFLE_NOTIFICATIONS,
        Act.INVENT_NOTIFICATIONS,
    }
)
OF_POSTGRESQL = frozenset({Act.RESTART_DATABASE, Act.CRASH_DATABASE})

_HOUR = 3600.0
_KILL_WEIGHTS = {Act.KILL: 5, Act.KILL_AT: 5, Act.KILL_ALL: 1}
_OTHER_WEIGHTS = {Act.HANG_REDIS_LONG: 1, Act.ROLL: 3}
_USUAL_WEIGHT = 6


@dataclass(frozen=True, slots=True)
class Move:
    """One act. `point` is the step of a job where it happens, `seconds` how long it lasts, and
    `pick` which of those that it may hit is hit, as a share of them."""

    act: Act
    point: str
    seconds: float
    pick: float


def moves(
    rng: Random, *, kills: int, workers: int, lease_seconds: float, unable: frozenset[Act]
) -> list[Move]:
    """Return `kills` kills of workers, and between them all else that the stage is able to do,
    each at least once."""
    others = [act for act in Act if act not in KILLS and act not in unable]
    weights = [_OTHER_WEIGHTS.get(act, _USUAL_WEIGHT) for act in others]
    chosen: list[Act] = []
    planned = 0
    while planned < kills:
        (kill,) = rng.choices(list(_KILL_WEIGHTS), list(_KILL_WEIGHTS.values()))
        chosen.append(kill)
        planned += workers if kill is Act.KILL_ALL else 1
    chosen += others + rng.choices(others, weights, k=max(0, planned // 2 - len(others)))
    rng.shuffle(chosen)
    return [_move(rng, act, lease_seconds) for act in chosen]


def clock_error(rng: Random) -> float:
    """Return by how many seconds the clock of a process's host is wrong: mostly 0, else an hour."""
    return rng.choice((0.0, 0.0, _HOUR, -_HOUR))


def _move(rng: Random, act: Act, lease_seconds: float) -> Move:
    match act:
        case Act.FREEZE | Act.FREEZE_AT:
            seconds = lease_seconds + rng.uniform(0.5, 2.5)
        case Act.HANG_REDIS:
            seconds = rng.uniform(0.5, 4.0)
        case Act.HANG_REDIS_LONG:
            seconds = rng.uniform(31.0, 36.0)
        case Act.FAIL_MODEL | Act.SLOW_MODEL | Act.PAUSE_QUEUE:
            seconds = rng.uniform(0.5, 3.0)
        case _:
            seconds = rng.uniform(0.0, 1.5)
    return Move(act, rng.choice(POINTS), seconds, rng.random())
