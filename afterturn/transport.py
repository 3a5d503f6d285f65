"""Whether Celery can use the transport that a broker's URL names."""

from __future__ import annotations

from kombu import Connection

from afterturn.exits import CommandError, Exit


class TransportMissing(CommandError):
    """The library of a broker's transport cannot be loaded. Install it, or use another broker."""

    def __init__(self, transport: str, why: str) -> None:
        self.problem = f"transport {transport!r} cannot be used: {why}"
        self.advice = (
            f'install what it needs, which `pip install "kombu[{transport}]"` brings for most, or '
            "use redis:// or amqp:// in broker_url or BROKER_URL"
        )
        super().__init__(f"{self.problem}; {self.advice}", Exit.CONFIGURATION)


def check_transport(url: str) -> None:
    """Load the transport of `url` without connecting. Raises `TransportMissing`."""
    transport = url.partition("://")[0].partition("+")[0]
    try:
        with Connection(url) as connection:
            _ = connection.transport
    except ImportError as error:
        missing = f"{error.name} is not installed" if error.name else "its library is not installed"
        raise TransportMissing(transport, missing) from error
    except (NameError, AttributeError) as error:
        # How some transports of kombu fail where their library is missing.
        raise TransportMissing(transport, "its library is not installed") from error
