"""Measurement of a session against the sizes at which it is compacted."""

from __future__ import annotations

from dataclasses import dataclass

from storage.conversations.sessions import SessionRecord
from workers.policy.calibration import Calibration
from workers.policy.threshold import (
    NoUsableWindowError,
    hygiene_limit,
    managed_by,
    session_threshold,
    usable_window,
)
from workers.settings import CompressionSettings


@dataclass(frozen=True, slots=True)
class Size:
    """A session's size and its limits, as they are now.

    `tokens` is the estimated size of its next request, `messages` the number of live messages,
    `window` the largest request. Compaction starts at `threshold`, and at `hygiene` a session is
    compacted before the next turn; both are None where the window leaves no room for a
    conversation. See docs/explanation/triggers.md.
    """

    tokens: int
    messages: int
    threshold: int | None
    hygiene: int | None
    window: int
    message_limit: int

    @property
    def over_threshold(self) -> bool:
        """Whether a request is compacted first."""
        return self.threshold is not None and self.tokens >= self.threshold

    @property
    def over_hygiene(self) -> bool:
        """Whether the session is compacted before a user's turn."""
        return self.hygiene is not None and self.tokens >= self.hygiene

    @property
    def over_messages(self) -> bool:
        """Whether the session has too many messages of any size."""
        return self.messages >= self.message_limit

    @property
    def over_limits(self) -> bool:
        """Whether a request needs a compaction first."""
        return self.over_messages or self.over_threshold

    @property
    def fits(self) -> bool:
        """Whether a request of that size fits the window."""
        return self.tokens <= self.window


def measure(
    record: SessionRecord, settings: CompressionSettings, *, tokens: int | None = None
) -> Size:
    """Measure a session; `tokens` is the gateway's own estimate of its next request.

    Without one, the stored estimate is used, calibrated by the provider's reports on earlier
    requests. Where another system compacts, the stored messages are not those that are sent, so our
    estimate is 0.
    """
    managed = managed_by(record, settings) is not None
    if managed and tokens is None:
        tokens = 0
    try:
        found = session_threshold(record, settings)
    except NoUsableWindowError:
        threshold = hygiene = None
    else:
        threshold, hygiene = found.tokens, hygiene_limit(record, found)
    return Size(
        tokens=_estimate(record) if tokens is None else tokens,
        messages=0 if managed else record.live_messages,
        threshold=threshold,
        hygiene=hygiene,
        window=usable_window(record),
        message_limit=settings.hygiene_hard_message_limit,
    )


def _estimate(record: SessionRecord) -> int:
    return Calibration.of(record.calibration).estimate(record.live_tokens)
