"""Where log lines go: standard error, whatever it is at that moment."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import TextIO

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LogLevel(StrEnum):
    """How much a long-running command says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to the standard error of now: a live display puts itself in its place for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: LogLevel) -> None:
    """Send all logs of this process from `level` on to standard error."""
    logging.basicConfig(
        level=level.value.upper(), format=_FORMAT, handlers=[_CurrentStderr()], force=True
    )
    if level is not LogLevel.DEBUG:
        # It tells at level info about every look at the revision.
        logging.getLogger("alembic").setLevel(logging.WARNING)
