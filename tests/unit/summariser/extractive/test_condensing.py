"""Lines within a size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.conversation.tokens import estimate_text
from workers.summariser.extractive.condensing import Lines, clip, condensed


def lines(count: int) -> Lines:
    return Lines(
        tuple(
            f"• Step {n} found table t{n} with {n} rows in it, compared each of them with the one "
            "of the day before and wrote the differences to a file of its own."
            for n in range(count)
        )
    )


def test_a_summary_is_read_back_as_it_was_written() -> None:
    for summary in (Lines(("• a", "• b"), 12), Lines(("• a",)), Lines((), 3), Lines(())):
        assert Lines.of(str(summary)) == summary


def test_what_fits_is_left_alone() -> None:
    assert condensed(lines(5), 1000) == lines(5)


def test_the_oldest_lines_pay_first() -> None:
    whole = lines(20)
    less = condensed(whole, whole.tokens - 20)
    assert less.lines[-15:] == whole.lines[-15:]
    assert less.lines[0].startswith("• Step 0 found table t0")
    assert estimate_text(less.lines[0]) < estimate_text(whole.lines[0])
    assert less.dropped == 0


def test_short_lines_are_dropped_and_not_joined() -> None:
    short = Lines(tuple(f"• Step {n} done." for n in range(20)))
    less = condensed(short, 60)
    assert less.lines == short.lines[-len(less.lines) :]
    assert less.dropped == 20 - len(less.lines)


def test_every_dropped_line_is_counted() -> None:
    less = condensed(lines(50), 60)
    assert less.tokens <= 60
    assert less.dropped + sum(len(line.split(" ┆ ")) for line in less.lines) == 50


def test_fresh_lines_are_touched_last() -> None:
    whole = lines(20)
    less = condensed(whole, 180, fresh=4)
    assert less.lines[-4:] == whole.lines[-4:]
    assert less.dropped > 0
    assert condensed(whole, 20, fresh=4).tokens <= 20


def test_of_equal_lines_the_newest_stays() -> None:
    assert Lines(("a", "b"), 2).then(["c", "a"]) == Lines(("b", "c", "a"), 2)


@given(st.lists(st.text(max_size=200), max_size=20), st.integers(6, 300), st.integers(0, 5))
def test_any_lines_fit_any_budget(texts: list[str], budget: int, fresh: int) -> None:
    whole = Lines.of("\n".join(texts))
    assert condensed(whole, budget, fresh=fresh).tokens <= budget


@pytest.mark.parametrize("tokens", [2, 5, 10, 20])
@pytest.mark.parametrize(
    "line", ["word " * 50, "航班改签" * 20, "x" * 300, "→ `look(at the moon)` " * 9]
)
def test_a_clipped_line_fits_and_closes_its_code(line: str, tokens: int) -> None:
    cut = clip(line, tokens)
    assert estimate_text(cut) <= tokens
    assert cut.count("`") % 2 == 0
    assert "…" in cut
