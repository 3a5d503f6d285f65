"""Who may look at web pages of ours, and from where."""

from __future__ import annotations

import hmac
from base64 import b64decode
from binascii import Error as NoBase64
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from afterturn.exits import CommandError, Exit

LEAST_PASSWORD = 8
"""Characters of the shortest password that is taken."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Names and passwords, each `NAME:PASSWORD`. Neither is shown anywhere."""

    pairs: tuple[str, ...] = field(repr=False)

    @classmethod
    def read(cls, file: Path) -> Credentials:
        """Read the lines `NAME:PASSWORD` of a file, without empty ones and those that begin with #.

        Raises `CommandError`, which never repeats a line.
        """
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise CommandError(
                f"the credentials in {file} cannot be read: {reason}", Exit.CONFIGURATION
            ) from None
        pairs = []
        for number, raw in enumerate(text.splitlines(), start=1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            name, _, password = line.partition(":")
            if not name or len(password) < LEAST_PASSWORD:
                raise CommandError(
                    f"line {number} of {file} is no NAME:PASSWORD with a password of at least "
                    f"{LEAST_PASSWORD} characters",
                    Exit.CONFIGURATION,
                )
            pairs.append(line)
        if not pairs:
            raise CommandError(f"{file} holds no NAME:PASSWORD", Exit.CONFIGURATION)
        return cls(tuple(pairs))

    def admit(self, authorization: str | None) -> bool:
        """Return whether an `Authorization` header names one of the pairs, in the same time for any
        password."""
        scheme, _, encoded = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            given = b64decode(encoded.strip(), validate=True)
        except (NoBase64, ValueError):
            return False
        matches = [hmac.compare_digest(pair.encode(), given) for pair in self.pairs]
        return any(matches)


@dataclass(frozen=True, slots=True)
class Place:
    """An address to listen on."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str, option: str) -> Place:
        """Parse `HOST:PORT`, an IPv6 address in brackets. Raises `CommandError`."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise CommandError(f"{option} {text!r} is no HOST:PORT", Exit.USAGE)
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this host reach it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host, as in an address or a `Host` header, is this one and no other."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_access(place: Place, credentials: Credentials | None, option: str) -> None:
    """Refuse to let other hosts in without a password. Raises `CommandError`."""
    if credentials is None and not place.is_loopback:
        raise CommandError(
            f"other hosts can reach {place.host}, so whoever looks has to say who it is: name a "
            f"file with lines NAME:PASSWORD by {option}, or listen on 127.0.0.1",
            Exit.USAGE,
        )
