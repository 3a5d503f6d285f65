"""Hypothesis strategies for whole transcripts and for live views with markers.

Messages are OpenAI chat dicts that pass `workers.conversation.messages.check`; among them stands
everything that real sessions are known to hold: reused ids, denied, missing, late and second
results, results in user clothing, notices with role user, blank, huge and foreign text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from hypothesis import strategies as st

from storage.conversations.rows import Kind, Origin, Row
from workers.conversation.markers import frame_tokens
from workers.conversation.messages import outline
from workers.conversation.tokens import estimate_message, estimate_text
from workers.conversation.transcript import is_kept_by_micro, is_system, tool_groups

ChatDict: TypeAlias = dict[str, Any]
Line: TypeAlias = tuple[ChatDict, Origin | None]
"""A message and what a gateway says about its origin."""

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
HUGE = "All work and no play makes a long message. " * 400
IDS = (
    "call_1",
    "call_2",
    "call_3",
    "toolu_01A",
    "functions.search:0",
    "fc/äö id",
    "x" * 80,
)
"""Few, so that they recur within a session; some of them no valid Anthropic id."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Messages in order and, for each, the origin that the gateway states (None: unstated)."""

    messages: list[ChatDict]
    origins: list[Origin | None]


@dataclass(frozen=True, slots=True)
class _Move:
    """Something that happens: lines now, and lines that only come after the next move."""

    now: list[Line]
    later: list[Line]


def rows_of(
    messages: Sequence[ChatDict], origins: Sequence[Origin | None] | None = None
) -> list[Row]:
    """Turn messages into rows at positions 0, 1, …, with ids from 1."""
    stated = origins if origins is not None else [None] * len(messages)
    rows = []
    for position, (message, origin) in enumerate(zip(messages, stated, strict=True)):
        read = outline(message, origin)
        rows.append(
            Row(
                position=position,
                tokens=estimate_message(message),
                id=position + 1,
                role=read.role,
                origin=read.origin,
                opens_turn=read.opens_turn,
                calls=read.calls,
                answers=read.answers,
                message=message,
            )
        )
    return rows


def marker_row(kind: Kind, position: int, summary: str, summary_id: int = 1) -> Row:
    """Return a live marker as storage gives it: no role, no message."""
    tokens = estimate_text(summary) + frame_tokens()
    return Row(position, tokens, kind=kind, summary=summary, summary_id=summary_id)


def texts() -> st.SearchStrategy[str]:
    """Return text that is not blank."""
    return st.one_of(
        st.sampled_from(
            (
                "Book the early flight.",
                "ok",
                "Line one\n\nLine two with trailing space ",
                "请帮我推荐一个人均消费在50-100元的餐馆。",
                "한국어와 日本語を混ぜた文",
                "half a pair \ud83d and a whole one 😀",
                "before\x00after",
                HUGE,
            )
        ),
        st.text(min_size=1, max_size=12).map(lambda text: f"w{text}"),
    )


def blanks() -> st.SearchStrategy[str]:
    return st.sampled_from(("", " ", "\n\t "))


def images() -> st.SearchStrategy[ChatDict]:
    urls = (
        f"data:image/png;base64,{PNG}",
        "https://example.org/a.jpg",
        "data:image/svg+xml,<svg/>",
    )
    return st.sampled_from(urls).map(lambda url: {"type": "image_url", "image_url": {"url": url}})


def text_parts() -> st.SearchStrategy[ChatDict]:
    return texts().map(lambda text: {"type": "text", "text": text})


def extras() -> st.SearchStrategy[ChatDict]:
    """Provider fields that must survive, mostly none."""
    return st.sampled_from(
        (
            {},
            {},
            {"reasoning_content": "so…", "provider": {"nested": [1, {"deep": None}], "π": 3.14}},
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "AAA=", "index": 0}]},
        )
    )


def user_contents() -> st.SearchStrategy[Any]:
    parts = st.lists(st.one_of(text_parts(), images()), min_size=1, max_size=3)
    return st.one_of(texts(), texts(), parts)


def system_moves() -> st.SearchStrategy[_Move]:
    roles = st.sampled_from(("system", "developer"))
    return st.builds(
        lambda role, content: _Move([({"role": role, "content": content}, None)], []),
        roles,
        st.one_of(texts(), blanks(), text_parts().map(lambda part: [part])),
    )


def user_moves() -> st.SearchStrategy[_Move]:
    """Return one or more user rows in a row, some of them blank or named."""

    def line(content: Any, more: ChatDict) -> Line:
        return {"role": "user", "content": content, **more}, None

    row = st.builds(
        line,
        st.one_of(user_contents(), user_contents(), blanks()),
        st.one_of(st.just({}), st.just({}), st.just({"name": "alice"}), extras()),
    )
    return st.lists(row, min_size=1, max_size=3).map(lambda lines: _Move(lines, []))


def notice_moves() -> st.SearchStrategy[_Move]:
    """Return a user-role row that no person wrote."""
    return user_contents().map(
        lambda content: _Move([({"role": "user", "content": content}, Origin.RUNTIME)], [])
    )


def reply_moves() -> st.SearchStrategy[_Move]:
    """Return an assistant row without calls: text, parts, nothing at all, or Anthropic blocks."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    contents = st.one_of(
        texts(),
        texts(),
        blanks(),
        st.none(),
        text_parts().map(lambda part: [part]),
        text_parts().map(lambda part: [thought, part]),
        st.just([thought]),
    )
    return st.builds(
        lambda content, more: _Move(
            [({"role": "assistant", "content": content, **more}, None)], []
        ),
        contents,
        extras(),
    )


def orphan_moves() -> st.SearchStrategy[_Move]:
    """Return a result of a call that never was, or not in this session; sometimes in user
    clothing."""
    identifiers = st.one_of(st.just("lost"), st.sampled_from(IDS))
    return st.builds(
        lambda identifier, dress: _Move([dress(identifier, "orphaned")], []), identifiers, dresses()
    )


Dress: TypeAlias = Callable[[str, str], Line]


def dresses() -> st.SearchStrategy[Dress]:
    """Ways in which the result of a call can be written down."""

    def tool_row(identifier: str, text: str) -> Line:
        return {"role": "tool", "tool_call_id": identifier, "name": "search", "content": text}, None

    def tool_parts(identifier: str, text: str) -> Line:
        parts = [{"type": "text", "text": text}]
        return {"role": "tool", "tool_call_id": identifier, "content": parts}, None

    def user_part(identifier: str, text: str) -> Line:
        return {"role": "user", "content": [_result_part(identifier, text)]}, None

    def user_part_with_text(identifier: str, text: str) -> Line:
        said = {"type": "text", "text": "and one more thing"}
        return {"role": "user", "content": [_result_part(identifier, text), said]}, None

    return st.sampled_from(
        (tool_row, tool_row, tool_row, tool_parts, user_part, user_part_with_text)
    )


def _result_part(identifier: str, text: str) -> ChatDict:
    content = [{"type": "text", "text": text}] if len(text) % 2 else text
    return {"type": "tool_result", "tool_use_id": identifier, "content": content}


@st.composite
def group_moves(draw: st.DrawFn) -> _Move:
    """Return an assistant row with one to four calls and what became of each of them."""
    identifiers = draw(
        st.one_of(
            st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True),
            st.lists(st.sampled_from(IDS[:2]), min_size=1, max_size=3),
        )
    )
    now: list[Line] = [(draw(calling_rows(identifiers)), None)]
    later: list[Line] = []
    for identifier in draw(st.permutations(identifiers)):
        dress = draw(dresses())
        text = draw(st.one_of(texts(), blanks()))
        match draw(st.sampled_from(("done", "done", "done", "denied", "missing", "late", "twice"))):
            case "done":
                now.append(dress(identifier, text))
            case "denied":
                now.append(dress(identifier, "The user denied this call."))
            case "late":
                later.append(dress(identifier, text))
            case "twice":
                now.append(dress(identifier, "Denied for now."))
                later.append(dress(identifier, text))
    return _Move(now, later)


def calling_rows(identifiers: Sequence[str]) -> st.SearchStrategy[ChatDict]:
    """Assistant rows that make calls with `identifiers`, in OpenAI or Anthropic shape."""
    arguments = (
        '{"query": "北京"}',
        '{"deep": {"a": [1, 2.5, null]}}',
        "",
        "[1, 2]",
        '{"cut": "of',
        "{}",
    )

    def openai_shape(content: Any, choice: int, more: ChatDict) -> ChatDict:
        calls = [
            {
                "id": identifier,
                "type": "function",
                "function": {"name": "search", "arguments": arguments[(choice + i) % 6]},
            }
            for i, identifier in enumerate(identifiers)
        ]
        return {"role": "assistant", "content": content, "tool_calls": calls, **more}

    def anthropic_shape(text: str) -> ChatDict:
        thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        uses = [
            {"type": "tool_use", "id": identifier, "name": "search", "input": {"q": i}}
            for i, identifier in enumerate(identifiers)
        ]
        return {"role": "assistant", "content": [thought, {"type": "text", "text": text}, *uses]}

    chat = st.builds(
        openai_shape, st.one_of(st.none(), texts(), blanks()), st.integers(0, 5), extras()
    )
    return st.one_of(chat, chat, chat, texts().map(anthropic_shape))


def exchange_moves() -> st.SearchStrategy[list[_Move]]:
    """Return what the agent does in one turn, mostly tool groups and replies."""
    move = st.one_of(
        group_moves(),
        group_moves(),
        reply_moves(),
        reply_moves(),
        notice_moves(),
        system_moves(),
        orphan_moves(),
    )
    return st.lists(move, max_size=5)


@st.composite
def transcripts(draw: st.DrawFn, max_turns: int = 30) -> Transcript:
    """Whole sessions of 0 to `max_turns` turns; some start with the assistant."""
    moves = draw(st.lists(system_moves(), max_size=3))
    if draw(st.integers(0, 4)) == 0:
        moves += draw(exchange_moves())
    turns = draw(st.lists(st.tuples(user_moves(), exchange_moves()), max_size=max_turns))
    for request, exchange in turns:
        moves += [request, *exchange]
    return _played(moves)


@st.composite
def one_turn_transcripts(draw: st.DrawFn, max_groups: int = 200) -> Transcript:
    """Return one request and a long run of up to `max_groups` tool groups that share a few ids."""
    moves = draw(st.lists(system_moves(), max_size=1))
    moves.append(draw(user_moves()))
    pattern = draw(st.lists(group_moves(), min_size=1, max_size=4))
    count = draw(st.integers(1, max_groups))
    moves += [pattern[i % len(pattern)] for i in range(count)]
    moves += draw(st.lists(reply_moves(), max_size=1))
    return _played(moves)


def any_transcripts() -> st.SearchStrategy[Transcript]:
    return st.one_of(transcripts(), transcripts(), one_turn_transcripts())


def _played(moves: Sequence[_Move]) -> Transcript:
    lines: list[Line] = []
    late: list[Line] = []
    for move in moves:
        lines += move.now
        lines += late
        late = move.later
    lines += late
    return Transcript([message for message, _ in lines], [origin for _, origin in lines])


@st.composite
def views(draw: st.DrawFn, sessions: st.SearchStrategy[Transcript] | None = None) -> list[Row]:
    """Live views: rows of a session after compaction, with zero to two markers.

    A batch marker stands behind the head in place of all but the system rows; a micro marker
    later, in place of the agent's rows. No tool group is cut, and the newest real user message
    stays. Summaries are unlike each other.
    """
    transcript = draw(sessions if sessions is not None else any_transcripts())
    rows = rows_of(transcript.messages, transcript.origins)
    cuts = _legal_cuts(rows)
    first, second, third = sorted(draw(st.tuples(*[st.sampled_from(cuts)] * 3)))
    if draw(st.integers(0, 3)) == 0:
        second = first  # a session that only micro-compaction has touched
    covered = [*rows[:first], *_without(rows[first:second], is_system, _batch(draw(texts())))]
    covered += _without(rows[second:third], is_kept_by_micro, _micro(draw(texts())))
    return covered + rows[third:]


def _legal_cuts(rows: Sequence[Row]) -> list[int]:
    """Places behind the opening system rows and before the newest request that cut no group."""
    opening = next((i for i, row in enumerate(rows) if not is_system(row)), len(rows))
    newest = max((i for i, row in enumerate(rows) if row.opens_turn), default=len(rows))
    inside = {
        place for group in tool_groups(rows) for place in range(group.call + 1, group.last + 1)
    }
    return [i for i in range(opening, max(newest, opening) + 1) if i not in inside]


def _batch(summary: str) -> Row:
    return marker_row(Kind.BATCH, 0, f"## Goal\nbatch: {summary}", summary_id=1)


def _micro(summary: str) -> Row:
    return marker_row(Kind.MICRO, 0, f"micro: {summary}", summary_id=2)


def _without(rows: Sequence[Row], kept: Callable[[Row], bool], marker: Row) -> list[Row]:
    """Return `rows` without those that the marker absorbs; whole groups only, nothing if none is
    left."""
    staying = {i for i, row in enumerate(rows) if kept(row)}
    for group in tool_groups(rows):
        if staying.intersection(group.members):
            staying.update(group.members)
    absorbed = [row for i, row in enumerate(rows) if i not in staying]
    if not absorbed:
        return list(rows)
    placed = replace(marker, position=absorbed[-1].position)
    return sorted([*(rows[i] for i in sorted(staying)), placed], key=lambda row: row.order)
