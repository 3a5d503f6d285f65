"""What holds for the rules of pruning on any view."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from storage.conversations.rows import Row
from tests.support.model.validity import check_view
from tests.support.sessions.pruning import pruned, shown
from tests.support.sessions.strategies import (
    IDS,
    ChatDict,
    Transcript,
    any_transcripts,
    rows_of,
    views,
)
from tests.tiers import examples
from workers.conversation.regions import RegionRules
from workers.conversation.tokens import estimate_message
from workers.conversation.transcript import is_system, tool_groups
from workers.policy.triggers import RULES, Trigger
from workers.prune.forms import Form
from workers.prune.notes import holds_note
from workers.prune.outputs import calls_of, outputs_of
from workers.prune.plan import old_rows
from workers.rendering import Dialect, RenderedView, render

PROPERTY = examples(60)
REGIONS = RegionRules(3, 4, 1, 300)
MIN_CHARS = 300

TOOLS = ("bash", "read_file", "write_file", "acme", "skill_view", "process")
ERROR = "PermissionError: may not touch"


def outputs() -> st.SearchStrategy[Any]:
    """Return what tools give: much of it long, some of it twice, some of it wrong."""
    long = st.sampled_from(
        (
            "line of a log\n" * 60,
            "错误与日志，很长的一行。" * 60,
            "half \ud83d a pair, NUL \x00, ⟦a bracket⟧\n" * 40,
            json.dumps({"output": "o" * 900, "exit_code": 1, "stderr": ERROR}),
            json.dumps({"status": "running", "task_id": "t1", "output": "r" * 900}),
            "step done\n" * 70 + ERROR + "\nstep undone" * 70,
        )
    )
    text = st.one_of(long, long, st.text(max_size=40), st.just("same " * 50))
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    parts = st.lists(
        st.one_of(st.just(image), text.map(lambda words: {"type": "text", "text": words})),
        min_size=1,
        max_size=3,
    )
    return st.one_of(text, text, text, parts)


def arguments() -> st.SearchStrategy[str]:
    values = st.one_of(
        st.none(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(("x" * 700, 'quoted " and \\ slash ' * 30, "ü\u2028北" * 120, "short")),
    )
    some = st.dictionaries(st.sampled_from(("path", "content", "n", "k" * 300)), values)
    deep = st.lists(some, max_size=2).map(lambda inner: {"edits": inner, "content": "y" * 600})
    return st.one_of(
        st.one_of(some, deep).map(json.dumps),
        st.one_of(some, deep).map(lambda v: json.dumps(v, ensure_ascii=False, indent=1)),
        st.sampled_from(("", "{}", '{"cut": "' + "z" * 700, "plain " * 200)),
    )


@st.composite
def tool_sessions(draw: st.DrawFn) -> Transcript:
    """Return sessions of much tool use: parallel calls, ids that recur, answers missing or
    twice."""
    lines: list[ChatDict] = []
    for turn in range(draw(st.integers(1, 4))):
        lines.append({"role": "user", "content": f"request {turn}"})
        for _ in range(draw(st.integers(0, 5))):
            names = draw(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3))
            ids = [draw(st.sampled_from(IDS)) for _ in names]
            calls = [
                {
                    "id": identifier,
                    "type": "function",
                    "function": {"name": name, "arguments": draw(arguments())},
                }
                for identifier, name in zip(ids, names, strict=True)
            ]
            lines.append({"role": "assistant", "content": None, "tool_calls": calls})
            for identifier in ids:
                if draw(st.integers(0, 9)):
                    said = {"role": "tool", "tool_call_id": identifier, "content": draw(outputs())}
                    lines.append(said)
        if draw(st.booleans()):
            lines.append({"role": "assistant", "content": "done " * draw(st.integers(1, 90))})
    return Transcript(lines, [None] * len(lines))


SESSIONS = st.one_of(tool_sessions(), tool_sessions(), any_transcripts())


def old(rows: list[Row]) -> frozenset[int]:
    return old_rows(rows, REGIONS, RULES[Trigger.AFTER_RESPONSE], turn_open=False)


def is_valid(view: RenderedView, dialect: Dialect) -> bool:
    """Return some providers take no images in results, whatever is done to them."""
    try:
        check_view(view, dialect)
    except AssertionError:
        return False
    return True


def short_of(rows: list[Row], **more: Any) -> dict[int, Any]:
    return pruned(rows, old(rows), proactive_prune_min_result_chars=MIN_CHARS, **more)


@PROPERTY
@given(views(SESSIONS))
def test_only_old_output_and_old_arguments_change(rows: list[Row]) -> None:
    allowed = old(rows)
    after = shown(rows, short_of(rows))
    for index, (row, now) in enumerate(zip(rows, after, strict=True)):
        if now.message == row.message:
            assert json.dumps(now.message) == json.dumps(row.message)
            continue
        assert index in allowed
        assert not row.opens_turn
        assert not is_system(row)
        assert not row.kind.is_marker
        assert row.message is not None
        assert now.message is not None
        assert list(now.message) == list(row.message)
        for field, value in row.message.items():
            if field not in ("content", "tool_calls"):
                assert json.dumps(now.message[field]) == json.dumps(value)
        if row.role == "assistant":
            assert row.calls
            assert [(c.id, c.name) for c in calls_of(now.message)] == [
                (c.id, c.name) for c in calls_of(row.message)
            ]
            if not isinstance(row.message.get("content"), list):
                assert now.message.get("content") == row.message.get("content")
        else:
            assert row.answers


@PROPERTY
@given(views(SESSIONS))
def test_pairs_stay_pairs_and_the_view_can_be_sent_in_every_dialect(rows: list[Row]) -> None:
    after = shown(rows, short_of(rows))
    assert tool_groups(after) == tool_groups(rows)
    for dialect in Dialect:
        before = render(rows, dialect)
        view = render(after, dialect)
        assert (view.omitted, view.stubbed) == (before.omitted, before.stubbed)
        assert len(view.messages) == len(before.messages)
        if is_valid(before, dialect):
            check_view(view, dialect)


@PROPERTY
@given(views(SESSIONS))
def test_the_same_pass_twice_changes_nothing_and_none_makes_the_view_larger(
    rows: list[Row],
) -> None:
    short = short_of(rows)
    assert short_of(rows) == short
    for one in short.values():
        assert one.tokens == estimate_message(one.message) < one.row.tokens
    after = shown(rows, short)
    assert short_of(after) == {}


@PROPERTY
@given(tool_sessions())
def test_arguments_that_were_json_stay_json_with_the_same_keys_and_short_values(
    session: Transcript,
) -> None:
    rows = rows_of(session.messages)
    after = shown(rows, short_of(rows))
    for row, now in zip(rows, after, strict=True):
        assert row.message is not None
        assert now.message is not None
        pairs = zip(calls_of(row.message), calls_of(now.message), strict=True)
        for former, call in pairs:
            if former.given == call.given:
                continue
            _check_shape(json.loads(former.text), json.loads(call.text))


def _check_shape(before: Any, after: Any) -> None:
    if isinstance(before, dict):
        assert list(before) == list(after)
        for key, value in before.items():
            _check_shape(value, after[key])
    elif isinstance(before, list):
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            _check_shape(one, other)
    elif before != after:
        assert len(before) > 200
        assert holds_note(after)
    else:
        assert type(before) is type(after)


@PROPERTY
@given(tool_sessions())
def test_errors_keep_their_message_and_exempt_tools_everything(session: Transcript) -> None:
    rows = rows_of(session.messages)
    short = short_of(rows)
    groups = {index: group for group in tool_groups(rows) for index in group.results}
    for index, row in enumerate(rows):
        if row.position not in short or not row.answers:
            continue
        before = json.dumps(row.message, ensure_ascii=False)
        if ERROR in before and not any(one.images for one in outputs_of(row)):
            assert ERROR in json.dumps(short[row.position].message, ensure_ascii=False)
        names = {c.name for c in calls_of(rows[groups[index].call].message or {})}
        assert names != {"skill_view"}


@PROPERTY
@given(tool_sessions())
def test_the_newest_results_stay_whole(session: Transcript) -> None:
    rows = rows_of(session.messages)
    everything = pruned(rows, proactive_prune_min_result_chars=MIN_CHARS)
    newest = next((g for g in reversed(tool_groups(rows)) if g.results), None)
    if newest is not None:
        assert not {rows[i].position for i in newest.results} & set(everything)


def test_every_kind_of_tool_can_be_configured() -> None:
    forms = {f"tool_{form}": form.value for form in Form}
    assert pruned(rows_of([]), proactive_prune_tool_forms=forms) == {}
