"""Push signals to gateways that listen, over Redis (ARCHITECTURE.md, *Delivery*).

A push may be lost: the stored signal is what counts, and gateways look for it anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from storage.signals import Signal, to_json
from tasks.names import signal_channel
from tasks.settings import PUSH_SETTINGS, is_redis

log = logging.getLogger(__name__)


def publish(broker_url: str | None, signals: Iterable[Signal]) -> int:
    """Publish a message per signal that is not quiet and give how many went out.

    Does nothing where the broker is no Redis. Never raises: one that is away is a line in the log.
    """
    loud = [signal for signal in signals if not signal.quiet]
    if not loud or broker_url is None or not is_redis(broker_url):
        return 0
    pushed = 0
    try:
        # Only who pushes over Redis pays for its driver.
        import redis  # noqa: PLC0415

        with redis.Redis.from_url(broker_url, **PUSH_SETTINGS) as client:
            for signal in loud:
                channel = signal_channel(signal.owner).encode("utf-8", "surrogatepass")
                client.publish(channel, to_json(signal))
                pushed += 1
    except Exception as error:  # noqa: BLE001 - the job is done, whatever a driver raises
        log.warning("signals not pushed (%s); gateways find them", type(error).__name__)
    return pushed
