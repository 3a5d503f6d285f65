"""The command line, called in this process or as a process of its own."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from afterturn.cli import run
from tests.support.programs.processes import PROJECT, clean_environment

ESCAPE = "\x1b"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output; anything else there is an error."""
        return json.loads(self.out)


def invoke(*arguments: str) -> Ended:
    """Run a command in this process, which finds its settings in this environment.

    It writes as to a pipe of 200 columns.
    """
    out, err = io.StringIO(), io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # The command sets up the logs of its process, which is the tests' here.
    root.handlers = []
    try:
        with redirect_stdout(out), redirect_stderr(err), patch.dict(os.environ, COLUMNS="200"):
            code = run(list(arguments))
    finally:
        root.handlers, root.level = handlers, level
    return Ended(int(code), out.getvalue(), err.getvalue())


def execute(*arguments: str, home: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run `python -m afterturn` with `env` and an empty home, wait for its end."""
    done = subprocess.run(
        [sys.executable, "-m", "afterturn", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=program_environment(home, env),
        cwd=home,
        timeout=60,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def program_environment(home: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which nothing of the developer's configures the program."""
    places = {name: str(home / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    return {**clean_environment(), **places, "PYTHONPATH": str(PROJECT), **(env or {})}
