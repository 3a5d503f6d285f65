"""A gateway in a process of its own.

    python -m tests.support.programs.gateway --sessions 4 --turns 200

Finishes turns of equal size over sessions `s0`, `s1`, … in an order that `--seed` decides; the
turns of each session come in their order. DATABASE_URL and BROKER_URL say where.
"""

from __future__ import annotations

import argparse
import sys
from random import Random

from producers import Gateway
from tests.support.sessions.conversations import turn

FIRST_NUMBER = 100
"""All numbers have three digits, so that all turns have one size."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    order = [number % options.sessions for number in range(options.turns)]
    Random(options.seed).shuffle(order)
    with Gateway() as gateway:
        opened = [
            gateway.open_session(f"s{number}", context_window=128_000)
            for number in range(options.sessions)
        ]
        said = [0] * options.sessions
        for place in order:
            gateway.finalize_turn(opened[place], turn(FIRST_NUMBER + said[place]))
            said[place] += 1
    sys.stdout.write("DONE\n")


if __name__ == "__main__":
    main()
