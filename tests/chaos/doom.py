"""Points of a job at which a worker of a chaos run dies or freezes when its monkey says so."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tasks.application import ProcessContext
from workers.runtime.context import WorkerContext

POINTS = (
    "claimed",
    "decided",
    "planned",
    "replied",
    "answered",
    "before-commit",
    "after-commit",
)
"""Where the jobs call `WorkerContext.reach`; `before-commit` lies inside of a transaction."""


def doomed_context(order: Path) -> type[ProcessContext]:
    """Return a worker context whose jobs obey the file `order`: `SIGKILL before-commit` or the
    like."""

    class DoomedContext(ProcessContext):
        def _make(self) -> WorkerContext:
            return replace(super()._make(), failpoint=_obeying(order))

    return DoomedContext


def _obeying(order: Path) -> Callable[[str], None]:
    def failpoint(point: str) -> None:
        try:
            name, wanted = order.read_text().split()
        except (OSError, ValueError):
            return
        if wanted == point:
            order.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.Signals[name])

    return failpoint
