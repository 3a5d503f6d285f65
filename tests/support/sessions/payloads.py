"""Hypothesis strategies for any string and any chat dict, valid or not."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

AWKWARD = "\x00\ud800\udfff\ud83d\ude00\ufdd0\\\"'"
NAMES = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "π")


def strings() -> st.SearchStrategy[str]:
    """Any string; many hold what cannot be stored, or look as if they had been escaped."""
    awkward = st.sampled_from((*AWKWARD, "\ufdd00000", "fdd0", "0", "a", "北", "😀", "\n"))
    return st.one_of(
        st.text(st.characters()), st.lists(awkward, max_size=12).map("".join), st.text(AWKWARD)
    )


def values() -> st.SearchStrategy[Any]:
    """Anything that JSON carries unchanged."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        strings(),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(strings(), inner, max_size=3)
        ),
        max_leaves=8,
    )


@st.composite
def chat_dicts(draw: st.DrawFn) -> dict[str, Any]:
    """Return a role and any other fields, in any order; content is often text and may be
    missing."""
    role = draw(st.sampled_from(("user", "assistant", "tool", "system", "developer")))
    content = st.one_of(strings(), strings(), values())
    others = st.dictionaries(st.one_of(st.sampled_from(NAMES), strings()), values(), max_size=4)
    fields = {**draw(others), "role": role}
    if draw(st.integers(0, 5)):
        fields["content"] = draw(content)
    return {name: fields[name] for name in draw(st.permutations(list(fields)))}


def written(message: Any) -> bytes:
    """Return the bytes by which two messages are compared, order of keys included."""
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
