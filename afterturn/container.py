"""Become a command, with passwords and keys from files: `python -m afterturn.container COMMAND …`.

Files are what container engines keep secrets in; a variable that holds a secret is shown to
whoever may look at a container. `DATABASE_PASSWORD_FILE` and `BROKER_PASSWORD_FILE` name the
passwords that belong into DATABASE_URL and BROKER_URL, `OPENAI_API_KEY_FILE` and the like the keys
of models. An empty file counts as none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

PASSWORDS = {
    "DATABASE_PASSWORD_FILE": "DATABASE_URL",
    "BROKER_PASSWORD_FILE": "BROKER_URL",
}
"""The variables that name a password's file, and the URL that it belongs into."""

KEYS = {
    "OPENAI_API_KEY_FILE": "OPENAI_API_KEY",
    "OPENROUTER_API_KEY_FILE": "OPENROUTER_API_KEY",
}
"""The variables that name a key's file, and the variable that it becomes."""


def with_secrets(environ: Mapping[str, str], read: Callable[[str], str]) -> dict[str, str]:
    """Return the environment of the command; `read` returns the content of a file.

    Raises `ValueError` where a password has no URL to go to. The message holds no secret.
    """
    found = dict(environ)
    for source, target in KEYS.items():
        if (file := found.pop(source, "")) and (key := read(file).strip()):
            found[target] = key
    for source, target in PASSWORDS.items():
        if (file := found.pop(source, "")) and (password := read(file).strip()):
            if not found.get(target):
                raise ValueError(f"{source} is set, but there is no {target} for the password")
            found[target] = _with_password(found[target], password)
    return found


def _with_password(url: str, password: str) -> str:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0] if at else ""
    return parts._replace(netloc=f"{name}:{quote(password, safe='')}@{host}").geturl()


def main() -> None:
    """Entry point of the image."""
    command = sys.argv[1:]
    if not command:
        sys.exit("afterturn.container: name the command to become")
    try:
        environ = with_secrets(os.environ, lambda file: Path(file).read_text(encoding="utf-8"))
        os.execvpe(command[0], command, environ)  # noqa: S606 - no shell is the point of it
    except (OSError, ValueError) as error:
        sys.exit(f"afterturn.container: {command[0]} cannot be started: {error}")


if __name__ == "__main__":
    main()
