"""The requests that one batch summary takes: one, or one per part and those that join them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256

from storage.rows import Row
from workers.batch.material import Material
from workers.batch.parts import batches, split
from workers.questions import question_key
from workers.redaction import redact
from workers.summariser.contract import Passage, SummaryRequest, Task
from workers.summariser.passages import INPUT_CHARS, fit, passages, passages_size
from workers.summariser.structured_prompts import BATCH_TEMPLATE_VERSION
from workers.tokens import estimate_text

_CHARS_A_TOKEN = 4
_FEWEST_PART_TOKENS = 300


@dataclass(frozen=True, slots=True)
class Ask:
    """One request and the key under which its answer is kept."""

    request: SummaryRequest
    question: str


@dataclass(frozen=True, slots=True)
class Requests:
    """What to ask for one summary. With several `parts`, their answers go to `joined`."""

    parts: tuple[Ask, ...]
    whole: SummaryRequest
    room: int

    def groups(self, texts: Sequence[str]) -> list[list[str]]:
        """Which of the summaries of consecutive parts one request can join."""
        return batches(texts, self.room)

    def join(self, texts: Sequence[str], *, last: bool) -> Ask:
        """The request that joins summaries of consecutive parts; the `last` one joins them with
        the previous summary too."""
        shown = tuple(Passage(f"part {i}", text) for i, text in enumerate(texts, 1))
        size = sum(map(estimate_text, texts))
        request = replace(
            self.whole,
            task=Task.MERGE,
            previous=self.whole.previous if last else "",
            passages=fit(shown, self.room),
            target_tokens=self.whole.target_tokens if last else max(1, size // 2),
            replaced_tokens=self.whole.replaced_tokens if last else size,
        )
        # Of a part only its text is known here; it tells its rows apart as well as they do.
        digest = sha256("\x00".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
        return Ask(request, _key(Task.MERGE, (), request.previous + digest, request.focus))


def write_requests(
    given: Material,
    *,
    target_tokens: int,
    replaced_tokens: int,
    room: Callable[[int], int],
    most_room: int | None,
    focus: str,
    today: date,
    idle_seconds: float | None = None,
    total_seconds: float | None = None,
) -> Requests:
    """Write what to ask about `given`.

    `room` gives the characters that fit beside summaries of so many tokens, `most_room` bounds it
    where a request of that size was too long before. What is longer than the 160,000 characters
    of ENGINE.md §6.3 is cut to them; what is too long for a smaller window is divided.
    """
    previous = redact(given.previous)
    chars = room(max(target_tokens, estimate_text(previous)))
    if most_room is not None:
        chars = min(chars, most_room)
    whole = SummaryRequest(
        task=Task.BATCH,
        previous=previous,
        question="",
        passages=(),
        target_tokens=target_tokens,
        replaced_tokens=replaced_tokens,
        today=today,
        focus=redact(focus),
        idle_seconds=idle_seconds,
        total_seconds=total_seconds,
    )
    shown = passages(given.rows)
    if chars >= INPUT_CHARS or passages_size(shown) <= chars:
        request = replace(whole, passages=fit(shown, chars))
        one = Ask(request, _key_of_rows(given.rows, given.previous, focus))
        return Requests((one,), whole, chars)
    return Requests(_parts(given, whole, chars, focus), whole, chars)


def _parts(given: Material, whole: SummaryRequest, room: int, focus: str) -> tuple[Ask, ...]:
    divided = split(given.rows, room)
    if len(divided) == 1:
        request = replace(whole, passages=fit(passages(given.rows), room))
        return (Ask(request, _key_of_rows(given.rows, given.previous, focus)),)
    share = room // (_CHARS_A_TOKEN * len(divided))
    target = max(_FEWEST_PART_TOKENS, min(whole.target_tokens, share))
    return tuple(
        Ask(
            replace(
                whole,
                previous="",
                passages=fit(passages(rows), room),
                target_tokens=target,
                # An intermediate answer may be as long as its part: what counts is the last one.
                replaced_tokens=max(2 * target, sum(row.tokens for row in rows)),
            ),
            _key_of_rows(rows, "", focus),
        )
        for rows in divided
    )


def _key_of_rows(rows: Sequence[Row], previous: str, focus: str) -> str:
    return _key(Task.BATCH, [row.id for row in rows], previous, focus)


def _key(task: Task, rows: Sequence[int], previous: str, focus: str) -> str:
    return question_key(
        task=task, rows=rows, previous=previous, template=BATCH_TEMPLATE_VERSION, focus=focus
    )
