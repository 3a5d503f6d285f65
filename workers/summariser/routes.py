"""What an endpoint is called in records and logs, and how a change of it is noticed."""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import urlsplit


def route_name(model: str, base_url: str) -> str:
    """`MODEL at HOST`, with the port where the URL has one.

    Nothing else of the URL: user, password, path and query may hold a key.
    """
    host = urlsplit(base_url).netloc.rpartition("@")[2].lower()
    return f"{model} at {host}"


def fingerprint(*parts: str) -> int:
    """A number of 63 bits, the same for the same parts in every process and version."""
    digest = sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 1
