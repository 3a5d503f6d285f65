"""What a report says that compaction saved is what can be counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from afterturn.report.course import Bounds, Course, Prices, Side, follow
from storage.history import PassFigures, RowFigures
from workers.settings.prices import ModelPrice, PriceSettings, cost, price_of

BOUNDS = Bounds(threshold=10_000, head=500, tail=2_000)
NOTHING = Prices()


def rows(turns: int, *, tokens: int = 500, hidden: int = 0) -> list[RowFigures]:
    """Turns of a request and an answer of `tokens` each, a second apart."""
    return [
        RowFigures(
            position=place,
            role="assistant" if place % 2 else "user",
            tokens=tokens,
            opens_turn=not place % 2,
            hidden=place < hidden,
            at=1_000 * place,
        )
        for place in range(2 * turns)
    ]


def one_pass(
    *,
    at: int,
    before: int,
    after: int,
    read: int = 0,
    written: int = 0,
    kind: str = "micro",
    trigger: str = "micro",
) -> PassFigures:
    return PassFigures(kind, trigger, "absorbed", before, after, read, written, "small", at)


def course(
    of: Sequence[RowFigures], *passes: PassFigures, live: int | None = None, imported: int = 0
) -> Course:
    whole = sum(row.tokens for row in of if not row.hidden)
    return follow(
        of, passes, BOUNDS, imported_rows=imported, live_tokens=whole if live is None else live
    )


def test_without_a_pass_both_sides_are_the_same() -> None:
    found = course(rows(3))
    assert found.requests == 3
    # 500, then 1,500, then 2,500 tokens were live before the answers.
    assert found.with_ == found.without == Side(prompt=4_500, cached=2_000)
    assert (found.tokens_saved, found.passes, found.inline_passes) == (0, 0, 0)
    assert [point.managed for point in found.points] == [1_000, 2_000, 3_000]


def test_what_a_pass_frees_is_saved_in_every_later_request_less_what_it_took() -> None:
    freed = one_pass(at=3_500, before=2_000, after=1_200, read=700, written=300)
    found = course(rows(4), freed, live=3_200)
    # Two requests with 800 tokens less each.
    assert found.without.prompt - found.with_.prompt == 1_600
    assert found.tokens_saved == 1_600 - 1_000
    assert found.passes == 1
    # The first request behind the pass finds nothing in the provider's cache.
    assert found.with_.cached == 500 + 0 + 1_700
    assert found.without.cached == 500 + 1_500 + 2_500


def test_a_session_breaks_even_with_the_pass_from_which_on_it_is_never_behind_again() -> None:
    first = one_pass(at=3_500, before=2_000, after=1_600, read=800, written=0)
    second = one_pass(at=9_500, before=4_600, after=3_000, read=700, written=0)
    found = course(rows(8), first, second, live=6_000)
    gains = [point.without.tokens - point.with_.tokens for point in found.points]
    assert gains == [0, -800, -400, 0, -300, 1700, 3700, 5700]
    assert found.break_even_pass(NOTHING) == 2
    assert course(rows(3), first, live=2_600).break_even_pass(NOTHING) is None
    assert course(rows(3)).break_even_pass(NOTHING) == 0
    # What was compacted after its last request has not won anything yet.
    late = one_pass(at=9_000, before=3_000, after=1_000)
    assert course(rows(3), late, live=1_000).break_even_pass(NOTHING) is None


def test_an_inline_agent_summarises_before_the_request_that_reaches_the_threshold() -> None:
    found = course(rows(12))
    # 10,500 tokens before the eleventh answer; 8,000 of them are the middle.
    assert found.inline_passes == 1
    assert found.without.summariser_read == 8_000
    assert found.without.summariser_written == 2_000
    assert [point.inline for point in found.points][-3:] == [10_000, 5_000, 6_000]


def test_what_was_sent_before_an_import_is_on_neither_side() -> None:
    found = course(rows(4, hidden=4), imported=6)
    assert found.requests == 1
    assert found.with_.prompt == found.without.prompt == 1_500
    assert found.points[-1].whole == 4_000


def test_a_batch_pass_is_counted_where_it_changed_something() -> None:
    batch = one_pass(at=1_500, before=1_000, after=600, kind="batch", trigger="preflight")
    bulk = one_pass(at=4_500, before=2_100, after=1_900, kind="batch", trigger="recompact")
    nothing = one_pass(at=3_500, before=1_600, after=1_600, kind="batch", read=900)
    found = course(rows(3), batch, nothing, bulk, live=2_600)
    assert (found.batch_passes, found.passes) == (1, 2)
    assert found.with_.summariser_read == 900


def test_money_is_unknown_without_prices_and_cached_tokens_cost_what_they_cost() -> None:
    side = Side(prompt=3_000_000, cached=1_000_000, summariser_read=2_000_000)
    assert side.money(NOTHING) is None
    main = ModelPrice(input=2.0, cached_input=0.5, output=8.0)
    small = ModelPrice(input=0.25, output=1.0)
    assert side.money(Prices(main, None)) is None
    assert side.money(Prices(main, small)) == pytest.approx(2 * 2.0 + 0.5 + 2 * 0.25)


def test_the_longest_key_in_a_models_name_gives_its_price() -> None:
    cheap, dear = ModelPrice(input=1.0), ModelPrice(input=9.0, output=2.0)
    prices = PriceSettings(models={"gpt": dear, "gpt-4o-mini": cheap})
    assert price_of(prices, "openai/GPT-4o-mini-2024") == cheap
    assert price_of(prices, "gpt-4o") == dear
    assert price_of(prices, "qwen") is None
    # Without a price of its own what is cached costs as much as the rest.
    assert cost(dear, cached_tokens=1_000_000, answer_tokens=500_000) == 10.0
