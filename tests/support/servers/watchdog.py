"""Ends a process of ours when its owner is gone, however the owner died."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

# The shell reads a pipe that only the owner writes to. Nobody ever does: the read ends when the
# kernel closes the pipe with its last owner, be it by exit, SIGKILL or `os._exit`.
_END_WITH_OWNER = """
read -r nothing
kill -s "$1" -- "$2"
kill -s CONT -- "$2"
tries=100
while [ "$tries" -gt 0 ]; do
    # Nobody may be there to remove a zombie, and a zombie holds nothing any more.
    case $(ps -o state= -p "$2") in
        ""|Z*) break ;;
    esac
    sleep 0.05
    tries=$((tries - 1))
done
kill -s KILL -- "$2"
shift 2
rm -rf -- "$@"
"""


class Watchdog:
    """Ties process `target` (a group, when negative) to its owner's life.

    The owner is this process, or all that hold the FIFO `life_line` open for writing. When it is
    gone, the target gets `ending`, five seconds later SIGKILL, and then `directories` are removed.
    """

    def __init__(
        self,
        target: int,
        *,
        ending: signal.Signals = signal.SIGKILL,
        directories: tuple[Path, ...] = (),
        life_line: Path | None = None,
    ) -> None:
        name = ending.name.removeprefix("SIG")
        words = ["/bin/sh", "-c", _END_WITH_OWNER, "sh", name, str(target), *map(str, directories)]
        pipe = subprocess.PIPE if life_line is None else _reading_end(life_line)
        self._shell = subprocess.Popen(
            words,
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if life_line is not None:
            os.close(pipe)

    def release(self) -> None:
        """Let the target go; it is the caller's to end."""
        if self._shell.poll() is None:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()


def _reading_end(fifo: Path) -> int:
    # Opened without blocking, since the owner may be gone already; read with, to wait for its end.
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor
