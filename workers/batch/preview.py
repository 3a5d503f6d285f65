"""Preview what a batch pass would do to a session, for people who decide whether to run it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storage.conversations.rows import Kind, Row
from workers.batch.plan import BatchPlan
from workers.batch.requests import Ask, Requests
from workers.batch.span import Span
from workers.conversation.markers import frame_tokens
from workers.conversation.regions import Regions
from workers.conversation.tokens import estimate_text
from workers.policy.calibration import Calibration
from workers.summariser.contract import SummaryRequest
from workers.summariser.structured_prompts import batch_prompt

_CHARS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Portion:
    """A part of a live view: how many messages, how many of those by users, markers, and tokens of
    both. `first` and `last` are positions, None if it is empty."""

    messages: int = 0
    by_users: int = 0
    markers: int = 0
    tokens: int = 0
    first: int | None = None
    last: int | None = None

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Portion:
        """Count rows of one view."""
        found = list(rows)
        positions = [row.position for row in found]
        markers = sum(row.kind.is_marker for row in found)
        return cls(
            messages=len(found) - markers,
            by_users=sum(row.opens_turn for row in found),
            markers=markers,
            tokens=sum(row.tokens for row in found),
            first=min(positions, default=None),
            last=max(positions, default=None),
        )

    @property
    def rows(self) -> int:
        """Messages and markers together."""
        return self.messages + self.markers


@dataclass(frozen=True, slots=True)
class Portions:
    """A live view and its parts as a pass treats them: head and tail stay, `held` are the rows
    between them that stay too, `leaving` are the rows that the summary replaces."""

    view: Portion
    head: Portion
    leaving: Portion
    held: Portion
    tail: Portion

    @classmethod
    def of(cls, view: Sequence[Row], regions: Regions, span: Span) -> Portions:
        """Count the parts of a whole live view."""
        leaving = (*span.messages, *span.markers)
        gone = {row.order for row in leaving}
        between = view[regions.head_end : regions.tail_start]
        return cls(
            view=Portion.of(view),
            head=Portion.of(view[: regions.head_end]),
            leaving=Portion.of(leaving),
            held=Portion.of(row for row in between if row.order not in gone),
            tail=Portion.of(view[regions.tail_start :]),
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """A pass before it runs. Tokens are estimates; the summary's size is a guess, the one that the
    prompt asks for.

    `replaced` are the kinds of the markers that leave. `summary_tokens` is the size of the new
    marker in the view, including `verbatim_tokens` for the covered user messages word for word.
    `requests` is how many the first model gets if each succeeds at once, `prompt_tokens` what these
    send of the conversation; requests that join several answers are not counted in it.
    """

    threshold_tokens: int
    calibration: Calibration
    parts: Portions
    replaced: tuple[Kind, ...]
    summary_tokens: int
    verbatim_tokens: int
    requests: int
    prompt_tokens: int

    @property
    def tokens_before(self) -> int:
        """Tokens of the live view as it is."""
        return self.parts.view.tokens

    @property
    def tokens_after(self) -> int:
        """Tokens of the live view afterwards."""
        return self.tokens_before - self.parts.leaving.tokens + self.summary_tokens

    @property
    def rows_after(self) -> int:
        """Rows of the live view afterwards, markers included."""
        return self.parts.view.rows - self.parts.leaving.rows + 1

    @property
    def saved_tokens(self) -> int:
        """Tokens that the pass frees, net of the summary; negative if the view grows."""
        return self.tokens_before - self.tokens_after

    @property
    def occupancy(self) -> float:
        """The next request without the pass, as a share of the threshold."""
        return self.calibration.estimate(self.tokens_before) / self.threshold_tokens

    @property
    def occupancy_after(self) -> float:
        """The next request after the pass, as a share of the threshold."""
        return self.calibration.estimate(self.tokens_after) / self.threshold_tokens


def preview(plan: BatchPlan, requests: Requests) -> Preview:
    """Return what `plan` does if `requests` get answers of the size that they ask for."""
    verbatim = estimate_text(plan.verbatim) if plan.verbatim else 0
    summary = plan.target_tokens + frame_tokens()
    if summary + verbatim >= plan.span.tokens:
        # The pass drops it too if it would not be smaller otherwise.
        verbatim = 0
    return Preview(
        threshold_tokens=plan.threshold.tokens,
        calibration=Calibration.of(plan.session.calibration),
        parts=Portions.of(plan.view, plan.regions, plan.span),
        replaced=tuple(row.kind for row in plan.span.markers),
        summary_tokens=summary + verbatim,
        verbatim_tokens=verbatim,
        requests=expected_requests(requests),
        prompt_tokens=sum(_prompt_tokens(one.request) for one in requests.parts),
    )


def expected_requests(requests: Requests) -> int:
    """Return how many requests a summary takes: its parts, and those that join them."""
    texts = [_answer_to(one) for one in requests.parts]
    count = len(texts)
    while len(texts) > 1:
        groups = requests.groups(texts)
        last = len(groups) == 1
        count += sum(len(group) > 1 for group in groups)
        texts = [
            _answer_to(requests.join(group, last=last)) if len(group) > 1 else group[0]
            for group in groups
        ]
    return count


def _prompt_tokens(request: SummaryRequest) -> int:
    return sum(map(estimate_text, batch_prompt(request)))


def _answer_to(one: Ask) -> str:
    """Return a text of the length that a request asks for."""
    return "x" * (_CHARS_A_TOKEN * one.request.target_tokens)
