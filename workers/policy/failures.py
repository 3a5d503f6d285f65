"""The failure policy: what follows when no summary can be had, and how long to wait before a retry.

See docs/explanation/failures.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from workers.policy.triggers import TriggerRules
from workers.settings import CompressionSettings
from workers.summariser.contract import ErrorClass, SummariserError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter: seconds of the first and of the longest wait."""

    base_seconds: float = 2.0
    longest_seconds: float = 600.0

    def delay_ms(self, failures: int, retry_after: float | None, rng: Random) -> int:
        """Return the milliseconds to wait after failure number `failures` in a row, from 1 on.

        The endpoint's `retry_after` (seconds) is honoured up to the longest wait.
        """
        ceiling = min(self.longest_seconds, self.base_seconds * 2 ** min(failures - 1, 30))
        asked = min(retry_after or 0.0, self.longest_seconds)
        return int(1000 * max(asked, rng.uniform(0, ceiling)))


NEARLY_FULL = 0.85
"""Share of the window above which failed batch jobs count towards a reset."""

POOR = 0.90
"""Share of the view's size from which on what a pass leaves makes it a poor one."""

LOCK_MS = 300_000
"""How long automatic passes are locked after `MOST_POOR_PASSES` poor ones in a row, and after each
further poor one."""

STUCK_SENTENCE = (
    "This conversation cannot be made smaller any more. Please start a new one; "
    "everything said here stays searchable."
)

_REPLACE_FIRST_SECONDS = 30.0
_REPLACE_LONGEST_SECONDS = 600.0
_REPLACE_LONGEST_OF_BAD_ANSWERS = 86_400.0


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The job waits and tries again; `counts` says that an attempt was spent."""

    delay_ms: int
    counts: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The job makes no further attempt: cooldown, then placeholder, an unchanged session, or a
    reset."""


def after_failure(
    error: SummariserError,
    *,
    tries: int,
    rules: TriggerRules,
    settings: CompressionSettings,
    retry: RetryPolicy,
    rng: Random,
) -> AskAgain | GiveUp:
    """Decide what follows an error; `tries` are the attempts spent before it."""
    if error.error_class.not_asked:
        down = error.error_class is ErrorClass.BREAKER_OPEN
        if rules.placeholder_at_once or (rules.bypasses and down):
            return GiveUp()
        return AskAgain(_retry_after_ms(error, retry), counts=False)
    spent = tries + 1 >= settings.summary_attempts
    if error.error_class.permanent or spent or rules.placeholder_at_once:
        return GiveUp()
    if error.error_class is ErrorClass.CONTEXT_OVERFLOW:
        # The next request is smaller, so waiting gains nothing.
        return AskAgain(0, counts=True)
    return AskAgain(retry.delay_ms(tries + 1, error.retry_after, rng), counts=True)


def retry_replacement(
    error: SummariserError, *, tries: int, retry: RetryPolicy, rng: Random
) -> AskAgain:
    """Decide when to retry replacing a placeholder. Retries go on for as long as it is shown, less
    and less often if the model does answer but never usefully."""
    if error.error_class.not_asked:
        return AskAgain(_retry_after_ms(error, retry), counts=False)
    longest = (
        _REPLACE_LONGEST_SECONDS
        if error.error_class.blames_endpoint
        else _REPLACE_LONGEST_OF_BAD_ANSWERS
    )
    policy = RetryPolicy(min(_REPLACE_FIRST_SECONDS, retry.longest_seconds), longest)
    return AskAgain(policy.delay_ms(tries + 1, error.retry_after, rng), counts=True)


def cooldown_ms(rules: TriggerRules, settings: CompressionSettings) -> int:
    """Return how long automatic passes are suppressed after the last failed attempt."""
    seconds = (
        settings.hygiene_failure_cooldown_seconds
        if rules.hygiene
        else settings.failure_cooldown_seconds
    )
    return int(1000 * seconds)


def uses_placeholder(rules: TriggerRules, settings: CompressionSettings) -> bool:
    """Return whether a failed pass puts a placeholder in place of the middle."""
    if rules.leaves_unchanged:
        return False
    return rules.placeholder_at_once or not settings.abort_on_summary_failure


def is_poor(before: int, after: int) -> bool:
    """Return whether a pass from `before` to `after` tokens of the view hardly saved anything."""
    return after >= POOR * before


def _retry_after_ms(error: SummariserError, retry: RetryPolicy) -> int:
    seconds = min(error.retry_after or retry.base_seconds, retry.longest_seconds)
    return int(1000 * seconds)
