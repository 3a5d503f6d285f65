"""Who sits at the terminal, for the audit trail."""

from __future__ import annotations

import getpass
import socket


def person() -> str:
    """The user at this host, as `ada@host (command line)`."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have no name.
        name = "somebody"
    return f"{name}@{socket.gethostname()} (command line)"
