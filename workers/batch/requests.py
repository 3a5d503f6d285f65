"""The requests for one batch summary: a single one, or one per part and those that join them.

A request that was answered once is never sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from itertools import pairwise

from storage import answers, jobs
from storage.answers import StoredAnswer
from storage.conversations.rows import Row
from workers.batch.plan import Material
from workers.conversation.tokens import estimate_text
from workers.conversation.transcript import tool_groups
from workers.redaction import redact
from workers.runtime.answer_store import answer_key, ask
from workers.runtime.pass_context import PassContext
from workers.summariser.contract import Passage, Stopped, SummaryRequest, Task
from workers.summariser.passages import INPUT_CHARS, fit, passages, passages_size
from workers.summariser.structured_prompts import BATCH_TEMPLATE_VERSION

_CHARS_A_TOKEN = 4
_FEWEST_PART_TOKENS = 300


@dataclass(frozen=True, slots=True)
class Ask:
    """One request and the key under which its answer is stored."""

    request: SummaryRequest
    answer_key: str


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests for one summary. The answers to several `parts` are joined by more requests, up
    to one like `whole`; `room` are the characters that fit one request."""

    parts: tuple[Ask, ...]
    whole: SummaryRequest
    room: int

    def groups(self, texts: Sequence[str]) -> list[list[str]]:
        """Group the summaries of consecutive parts so that one request can join each group."""
        return batches(texts, self.room)

    def join(self, texts: Sequence[str], *, last: bool) -> Ask:
        """Build the request that joins summaries of consecutive parts; the `last` one joins them
        with the previous summary too."""
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
        # Only the text of each part is known here; it identifies its rows as well as their ids do.
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
    """Build the requests for a summary of `given`.

    `room` returns the characters that fit a request beside summaries of so many tokens; `most_room`
    bounds that if a longer request was refused before. Material for a full-size request is cut to
    its 160,000 characters; for a smaller window it is divided into parts.
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
                # An intermediate answer may be as long as its part; only the last one must shrink.
                replaced_tokens=max(2 * target, sum(row.tokens for row in rows)),
            ),
            _key_of_rows(rows, "", focus),
        )
        for rows in divided
    )


def _key_of_rows(rows: Sequence[Row], previous: str, focus: str) -> str:
    return _key(Task.BATCH, [row.id for row in rows], previous, focus)


def _key(task: Task, rows: Sequence[int], previous: str, focus: str) -> str:
    return answer_key(
        task=task, rows=rows, previous=previous, template=BATCH_TEMPLATE_VERSION, focus=focus
    )


def ask_all(run: PassContext, requests: Requests) -> StoredAnswer:
    """Get the summary, part by part. Raises `SummariserError` and `Stopped`.

    Each accepted answer is stored before the next request, so neither an error nor a crash loses a
    part that was answered, and a stopping worker may end between two.
    """
    answered = [_answer(run, one) for one in requests.parts]
    while len(answered) > 1:
        groups = requests.groups([answer.text for answer in answered])
        newest, last = answered[-1], len(groups) == 1
        answered = [
            _answer(run, requests.join(group, last=last)) if len(group) > 1 else newest
            for group in groups
        ]
    return answered[0]


def _answer(run: PassContext, one: Ask) -> StoredAnswer:
    with run.database.read() as connection:
        stored = answers.find(connection, run.key, one.answer_key)
    if stored is not None:
        run.cost.count(stored)
        return stored
    if run.cost.requests:
        if run.context.stopping():
            raise Stopped("the answers so far are stored; another worker asks for the rest")
        _extend_deadline(run)
    return ask(run, one.answer_key, one.request)


def _extend_deadline(run: PassContext) -> None:
    """Start the deadline over: every answer is progress."""
    context = run.context
    with run.database.write() as connection:
        jobs.extend(
            connection,
            run.database,
            run.claim,
            lease_ms=context.lease_ms,
            deadline_ms=context.deadline_ms,
        )


def split(rows: Sequence[Row], room: int) -> list[list[Row]]:
    """Divide message rows into consecutive parts whose passages take at most `room` characters.

    Cuts fall between exchanges, and between tool groups of an exchange that alone is too large. A
    single group that is too large is a part of its own; its prompt is cut.
    """
    # Each with its line break. In a later part a passage may be shorter, because the name of its
    # tool is known from the call only.
    sizes = [passages_size((one,)) + 1 for one in passages(rows)]
    pieces = _fitting(rows, sizes, room)
    return [[rows[i] for i in part] for part in _packed(pieces, sizes, room)]


def batches(texts: Sequence[str], room: int) -> list[list[str]]:
    """Group texts, in order, so that each group takes at most `room` characters. A group has at
    least two texts, so that joining groups terminates."""
    groups: list[list[str]] = []
    for text in texts:
        if groups and (len(groups[-1]) < 2 or sum(map(len, groups[-1])) + len(text) <= room):
            groups[-1].append(text)
        else:
            groups.append([text])
    return groups


def _fitting(rows: Sequence[Row], sizes: Sequence[int], room: int) -> Iterator[range]:
    """Yield exchanges, and the groups of those that are too large, as ranges of indexes."""
    for exchange in _cut(range(len(rows)), lambda i: rows[i].opens_turn):
        if _size(exchange, sizes) <= room:
            yield exchange
        else:
            yield from _groups(rows, exchange)


def _packed(pieces: Iterable[range], sizes: Sequence[int], room: int) -> Iterator[range]:
    part = range(0)
    for piece in pieces:
        longer = range(part.start, piece.stop)
        if part and _size(longer, sizes) > room:
            yield part
            longer = piece
        part = longer
    if part:
        yield part


def _size(part: range, sizes: Sequence[int]) -> int:
    return sum(sizes[part.start : part.stop]) - 1


def _groups(rows: Sequence[Row], exchange: range) -> list[range]:
    """Return single rows and whole tool groups; nested groups stay together."""
    groups = tool_groups(rows[exchange.start : exchange.stop])
    inside = {exchange[i] for one in groups for i in range(one.call + 1, one.last + 1)}
    return _cut(exchange, lambda i: i not in inside)


def _cut(whole: range, begins: Callable[[int], bool]) -> list[range]:
    """Cut a range before each index for which `begins` is true."""
    cuts = [i for i in whole[1:] if begins(i)]
    return [range(*ends) for ends in pairwise([whole.start, *cuts, whole.stop])] if whole else []
