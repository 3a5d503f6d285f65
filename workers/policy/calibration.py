"""Learn from a provider's usage reports how its counts relate to our token estimates.

The provider counts `additive + ratio × estimate`: the system prompt and tool schemas come on top
of a conversation, and its tokeniser is not our rule of thumb. One report cannot separate the two;
the reports of a conversation that grows and is compacted can. This is a recursive least-squares
fit, with errors in proportion to the count. Each report has a weight of a tenth at least, so the
fit follows a session whose text changes. See docs/explanation/tokens.md.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Self, TypeAlias

from storage.conversations.events import Report
from storage.conversations.sessions import SessionRecord
from workers.policy.threshold import managed_by, session_window
from workers.settings import CompressionSettings

LEAST_RATIO, MOST_RATIO = 0.5, 2.0
"""Bounds of the ratio: a report that needs one outside them is not believed."""

_RATIO_DOUBT = 1 / 3
"""Standard deviation of the ratio from 1 before anything is known."""

_NOISE = 0.02
"""Expected error of a report as a share of its count: kinds of text differ by that much."""

_NOISE_TOKENS = 16.0

_LEAST_TRUST = 0.1
_LEAST_DOUBT = 1e-6
_FAR = 3.0
"""Standard deviations at which the surprise of a report is capped."""

_STRAYS = 3
"""Reports in a row that are far off on the same side, after which they are believed."""

_CACHED = 4
"""A count below the estimate divided by this excludes the part read from a prompt cache."""

Doubt: TypeAlias = tuple[float, float, float]
"""Covariance of the two parts: variance of the additive one in tokens², covariance in tokens,
variance of the ratio."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """An additive part in tokens and a ratio, learned from `samples` reports.

    `doubt` is how uncertain the two are, `strays` how many reports in a row were far off on the
    same side, negative if they counted less than expected.
    """

    additive: int = 0
    ratio: float = 1.0
    samples: int = 0
    doubt: Doubt = (0.0, 0.0, 0.0)
    strays: int = 0

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Read what `dump` wrote; None and unreadable text give a fresh calibration."""
        try:
            stored = json.loads(text or "{}")
            read = cls(
                additive=int(stored["additive"]),
                ratio=float(stored["ratio"]),
                samples=int(stored["samples"]),
                doubt=_doubt(stored["doubt"]),
                strays=int(stored["strays"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError):
            return cls()
        sound = read.samples > 0 and read.additive >= 0 and LEAST_RATIO <= read.ratio <= MOST_RATIO
        return read if sound else cls()

    def dump(self) -> str:
        """Return the calibration as JSON for `of`."""
        return json.dumps(asdict(self))

    def estimate(self, live_tokens: int) -> int:
        """Return what the provider would count for a view that we estimate at `live_tokens`."""
        return self.additive + round(self.ratio * live_tokens)

    def updated(self, view_tokens: int, prompt_tokens: int, *, window: int) -> Self:
        """Return the calibration after the provider counted `prompt_tokens` for a view of
        `view_tokens`.

        The additive part stays between 0 and `window`, the model's in tokens. A report that no
        such part and no ratio from 0.5 to 2 can explain changes nothing.
        """
        if not _plausible(view_tokens, prompt_tokens, window):
            return self
        noise = (_NOISE * prompt_tokens) ** 2 + _NOISE_TOKENS**2
        if not self.samples:
            return self._anchored(view_tokens, prompt_tokens, noise, window)
        surprise = prompt_tokens - self.additive - self.ratio * view_tokens
        of_additive, of_ratio, spread = _pull(self.doubt, view_tokens)
        farthest = _FAR * math.sqrt(spread + noise)
        strays = _count_on(self.strays, surprise) if abs(surprise) > farthest else 0
        if abs(strays) == _STRAYS:
            return self._anchored(view_tokens, prompt_tokens, noise, window)
        trust = max(spread / (spread + noise), _LEAST_TRUST)
        share = trust * max(-farthest, min(surprise, farthest)) / spread
        return replace(
            self._moved(share * of_additive, share * of_ratio, window),
            samples=self.samples + 1,
            doubt=_less(self.doubt, of_additive, of_ratio, spread + noise),
            strays=strays,
        )

    def _anchored(self, view_tokens: int, prompt_tokens: int, noise: float, window: int) -> Self:
        """Start over with this report: the ratio stays, the rest is additive. If the count is
        below what the ratio alone predicts, the ratio is lowered instead."""
        additive = round(prompt_tokens - self.ratio * view_tokens)
        ratio = self.ratio if additive >= 0 else prompt_tokens / view_tokens
        doubt = _RATIO_DOUBT**2
        return replace(
            self,
            additive=_within(window, additive),
            ratio=max(ratio, LEAST_RATIO),
            samples=self.samples + 1,
            doubt=(view_tokens**2 * doubt + noise, -view_tokens * doubt, doubt),
            strays=0,
        )

    def _moved(self, additive: float, ratio: float, window: int) -> Self:
        """Move both parts. What the bounds of the ratio cut off goes to the additive part."""
        _, both, of_ratio = self.doubt
        ratio += self.ratio
        bounded = max(LEAST_RATIO, min(ratio, MOST_RATIO))
        additive += self.additive + (bounded - ratio) * both / of_ratio
        return replace(self, additive=_within(window, additive), ratio=bounded)


def _plausible(view_tokens: int, prompt_tokens: int, window: int) -> bool:
    fewest = max(1, view_tokens // _CACHED)
    return view_tokens >= 0 and fewest <= prompt_tokens <= MOST_RATIO * view_tokens + window


def _count_on(strays: int, surprise: float) -> int:
    side = 1 if surprise > 0 else -1
    return strays + side if strays * side > 0 else side


def _within(window: int, additive: float) -> int:
    return round(max(0, min(additive, window)))


def _pull(doubt: Doubt, view_tokens: int) -> tuple[float, float, float]:
    """Return how much of a surprise at a view of that size each part accounts for, and the
    variance of the surprise."""
    additive, both, ratio = doubt
    of_additive = additive + both * view_tokens
    of_ratio = both + ratio * view_tokens
    return of_additive, of_ratio, max(of_additive + of_ratio * view_tokens, _LEAST_DOUBT)


def _less(doubt: Doubt, pull_additive: float, pull_ratio: float, variance: float) -> Doubt:
    """Return the doubt that is left after a report; rounding never makes it zero."""
    additive, both, ratio = doubt
    return (
        max(additive - pull_additive**2 / variance, _LEAST_DOUBT),
        both - pull_additive * pull_ratio / variance,
        max(ratio - pull_ratio**2 / variance, _LEAST_DOUBT**2),
    )


def _doubt(stored: object) -> Doubt:
    """Read a stored covariance. Raises ValueError if it is none."""
    if not isinstance(stored, list) or len(stored) != 3:
        raise ValueError("no covariance")
    additive, both, ratio = (float(number) for number in stored)
    if not (additive > 0 and ratio > 0 and math.isfinite(additive * ratio) and math.isfinite(both)):
        raise ValueError("no covariance")
    return additive, both, ratio


def counted_prompt(report: Report) -> int | None:
    """Return the tokens of the prompt as the provider counted them.

    None if the report does not say, or if the view that was sent had another revision than the one
    stored when the report arrived: then our estimate is of another view.
    """
    try:
        usage = json.loads(report.usage)
        prompt, revision = usage.get("prompt_tokens"), usage.get("revision")
    except (ValueError, AttributeError):
        return None
    if not isinstance(prompt, int) or revision not in (None, report.revision):
        return None
    return prompt


def current_prompt(report: Report, session: SessionRecord) -> int | None:
    """Return the counted prompt if the view has not been changed since: only then may it trigger
    a pass."""
    return counted_prompt(report) if report.revision == session.revision else None


def recalibrated(
    report: Report, session: SessionRecord, settings: CompressionSettings
) -> Calibration | None:
    """Return the session's calibration after the report; None if it does not change.

    If the provider compacts the session, it did not count the view that we store. A view that was
    compacted after its report was still sent and counted, so it does calibrate. But the first
    report has to be of the current revision: a change of model drops the calibration and changes
    the revision, and what the former model counted must not calibrate the new one.
    """
    prompt = counted_prompt(report)
    if prompt is None or report.view_tokens is None or managed_by(session, settings):
        return None
    if session.calibration is None and report.revision != session.revision:
        return None
    former = Calibration.of(session.calibration)
    learned = former.updated(report.view_tokens, prompt, window=session_window(session))
    return None if learned == former else learned
