"""How the program ends: exit codes, and the error of a command."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes. They are part of the interface and never change their meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIGURATION = 3
    UNAVAILABLE = 4
    NOT_FOUND = 5
    FAULT = 70
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What the code says, in words for `--help`."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.OK: "done",
    Exit.FAILED: "a check, a verdict or a compaction failed",
    Exit.USAGE: "wrong use of the command line, or an input file that cannot be read",
    Exit.CONFIGURATION: "the configuration cannot be used",
    Exit.UNAVAILABLE: "the database or the broker cannot be used",
    Exit.NOT_FOUND: "there is no such session or dead job",
    Exit.FAULT: "a fault in afterturn itself",
    Exit.INTERRUPTED: "interrupted from the keyboard",
}


class ReaderGone(Exception):
    """Whoever read the output has seen enough, as `head` does. The program ends without a word."""


class CommandError(Exception):
    """A command cannot go on. The message says what, where and what to do; `exit` ends the program.

    Raised by the command line itself; errors of the floors below have classes of their own.
    """

    def __init__(self, message: str, exit_: Exit) -> None:
        super().__init__(message)
        self.exit = exit_
