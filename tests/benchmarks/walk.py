"""How many functions and files a turn passes, from the gateway's call to the next view.

`python -m tests.benchmarks.walk` lists them.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.size import FOLDERS
from tests.benchmarks.stage import DATABASES, Stage
from tests.support.programs.processes import PROJECT
from tests.support.sessions.conversations import turn
from tests.support.sessions.play import Turn, playing

_PREFIXES = tuple(str(PROJECT / name) + "/" for name in FOLDERS)
_TURNS = 16
_SETTINGS: dict[str, Any] = {
    "protect_last_n": 8,
    "threshold_tokens": 4000,
    "micro_compact_min_tokens": 600,
}

Walk = set[tuple[str, str]]
"""File and qualified name of each function that was called."""


@contextmanager
def walking() -> Iterator[Walk]:
    """Collect the product's functions that are called meanwhile, by threads that begin too."""
    walked: Walk = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        # Bodies of modules and comprehensions have frames, too, but are no functions.
        if (
            event == "call"
            and code.co_filename.startswith(_PREFIXES)
            and not code.co_name.startswith("<")
        ):
            walked.add((code.co_filename, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield walked
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def walk_of_a_turn(url: str) -> Walk:
    """Return what a turn passes that makes a micro pass due: gateway, turn job, pass, view.

    A turn of the same kind went before, so that what is done once a process does not count.
    """
    with playing(url, **_SETTINGS) as play:
        session = play.gateway.open_session("walk", context_window=128_000)
        for number in range(_TURNS):
            play.say(session, Turn(turn(number), [None] * 4))
        play.work_off()
        passes = play.rows("SELECT passes FROM sessions")
        with walking() as walked:
            number = _TURNS
            while play.rows("SELECT passes FROM sessions") == passes:
                play.say(session, Turn(turn(number), [None] * 4))
                play.work_off()
                number += 1
            play.gateway.load_context(session)
        return walked


def walked(stage: Stage, _scale: Scale) -> Iterator[Figure]:
    """Report functions and files of a turn's way, on each database."""
    for database in DATABASES:
        with stage.database(database) as url:
            walk = walk_of_a_turn(url)
        files = {file for file, _ in walk}
        yield Figure("functions that a turn passes", database, len(walk), "functions")
        yield Figure("files that a turn passes", database, len(files), "files")


def main() -> None:
    """Print the functions of a turn's way, file by file."""
    with tempfile.TemporaryDirectory() as folder:
        walk = walk_of_a_turn(f"sqlite:///{Path(folder) / 'walk.db'}")
    for file, name in sorted(walk):
        sys.stdout.write(f"{Path(file).relative_to(PROJECT)}: {name}\n")
    sys.stdout.write(f"{len(walk)} functions in {len({file for file, _ in walk})} files\n")


if __name__ == "__main__":
    main()
