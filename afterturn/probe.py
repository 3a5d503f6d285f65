"""Whether a web page of ours answers: `python -m afterturn.probe URL [FILE]`, for health checks.

FILE holds lines NAME:PASSWORD; the first one is used. Exit code 0 for an answer of status 200
in which the database is up, else 1 with the reason on standard error.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from afterturn.credentials import Credentials

SECONDS = 10.0
DOWN = b"afterturn_database_up 0"
"""In metrics: the exporter answers, but without what it is for."""


def probe(url: str, credentials: Credentials | None) -> str:
    """Return why the page is not well, nothing if it is."""
    parts = urlsplit(url)
    headers = {}
    if credentials is not None:
        headers["Authorization"] = f"Basic {b64encode(credentials.pairs[0].encode()).decode()}"
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        connection.request("GET", parts.path or "/", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
    except OSError as error:
        return f"no answer ({error})"
    finally:
        connection.close()
    if answer.status != 200:
        return f"status {answer.status}"
    return "the database is down" if DOWN in body else ""


def main() -> None:
    """Entry point of a health check."""
    url, *file = sys.argv[1:]
    credentials = Credentials.read(Path(file[0])) if file else None
    sys.exit(probe(url, credentials) or 0)


if __name__ == "__main__":
    main()
