"""What re-compacting many sessions would take, before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afterturn.compaction.look import look
from storage import bulk_runs, sessions
from storage.bulk_runs import Filters
from workers.batch.plan import NothingToCompact
from workers.batch.preview import Preview
from workers.batch.span import CompactionOptions
from workers.runtime.context import Workshop
from workers.settings.prices import PriceSettings, cost, price_of
from workers.triggers import Trigger

SAMPLE = 200
"""Sessions that are looked at closely; of more, evenly spread ones stand for all."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A run before it begins. All but `matched` and `live_tokens` are counted for the sessions
    looked at and multiplied where those are fewer than all. `money` is None where the price of the
    model is not known; the built-in summariser costs nothing."""

    matched: int
    live_tokens: int
    looked_at: int
    to_compact: int
    requests: int
    prompt_tokens: int
    answer_tokens: int
    tokens_saved: int
    model: str
    money: float | None
    currency: str

    @property
    def sampled(self) -> bool:
        return self.looked_at < self.matched


def estimate(
    shop: Workshop,
    filters: Filters,
    *,
    owner: str | None,
    local: bool,
    told: Callable[[int, int], None],
) -> Estimate:
    """Plan a pass of every session that matches, or of a sample, and add up. Changes nothing.

    `told` hears how many were looked at of how many; `local` says that no model is asked.
    """
    with shop.database.read() as connection:
        chosen = bulk_runs.chosen(connection, shop.database, filters, owner=owner)
    keys = _spread([key for key, _ in chosen])
    looks: list[Preview] = []
    for number, key in enumerate(keys, 1):
        with shop.database.read() as connection:
            session = sessions.fetch(connection, key)
        seen = look(shop, session, CompactionOptions(), Trigger.RECOMPACT)
        if not isinstance(seen, NothingToCompact) and seen.saved_tokens > 0:
            looks.append(seen)
        told(number, len(keys))
    return _sum(shop, chosen, keys, looks, local=local)


def _sum(
    shop: Workshop,
    chosen: Sequence[tuple[int, int]],
    keys: Sequence[int],
    looks: Sequence[Preview],
    *,
    local: bool,
) -> Estimate:
    whole = len(chosen) / len(keys) if keys else 0.0
    prices: PriceSettings = shop.settings.current().prices
    model = shop.summariser.model
    prompt = 0 if local else round(whole * sum(one.prompt_tokens for one in looks))
    answers = 0 if local else round(whole * sum(_answered(one) for one in looks))
    price = price_of(prices, model)
    money = None if price is None else cost(price, prompt_tokens=prompt, answer_tokens=answers)
    return Estimate(
        matched=len(chosen),
        live_tokens=sum(tokens for _, tokens in chosen),
        looked_at=len(keys),
        to_compact=round(whole * len(looks)),
        requests=0 if local else round(whole * sum(one.requests for one in looks)),
        prompt_tokens=prompt,
        answer_tokens=answers,
        tokens_saved=round(whole * sum(one.saved_tokens for one in looks)),
        model=model,
        money=0.0 if local else money,
        currency=prices.currency,
    )


def _answered(seen: Preview) -> int:
    """Tokens of the answers of a pass: what code adds to the marker no model writes."""
    return seen.requests * max(0, seen.summary_tokens - seen.verbatim_tokens)


def _spread(keys: Sequence[int]) -> list[int]:
    """At most `SAMPLE` of them, evenly spread, so that old and young ones are among them."""
    if len(keys) <= SAMPLE:
        return list(keys)
    return [keys[number * len(keys) // SAMPLE] for number in range(SAMPLE)]
