"""Beat of a chaos run: `python -m tests.chaos.beat --skew SECONDS [words for celery beat]`."""

from __future__ import annotations

import argparse

from tests.chaos.skew import set_clock_ahead


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skew", type=float, default=0.0)
    options, words = parser.parse_known_args()
    if options.skew:
        set_clock_ahead(options.skew)
    from celery.bin.celery import celery

    celery(["-A", "schedules.app", "beat", *words])


if __name__ == "__main__":
    main()
