"""An estimate of a bulk run, made before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afterturn.compaction.preview import preview_pass
from storage import bulk_runs
from storage.bulk_runs import Filters
from storage.conversations import sessions
from workers.batch.plan import NothingToCompact
from workers.batch.preview import Preview
from workers.batch.span import CompactionOptions
from workers.policy.triggers import Trigger
from workers.runtime.context import WorkerContext
from workers.settings.prices import PriceSettings, cost, price_of

SAMPLE = 200
"""Sessions that are planned; of more, evenly spread ones stand for all."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A run before it begins. All but `matched` and `live_tokens` are counted for `looked_at`
    sessions and scaled up if those are fewer than all. `money` is None if the price of the model
    is not known; the built-in summariser costs nothing."""

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
        """Whether the figures are scaled up."""
        return self.looked_at < self.matched


def estimate(
    worker: WorkerContext,
    filters: Filters,
    *,
    owner: str | None,
    local: bool,
    on_progress: Callable[[int, int], None],
) -> Estimate:
    """Plan a pass of every session that matches, or of a sample, and add up. Changes nothing.

    `on_progress` is called with how many of how many are planned; `local` says that no model is
    asked.
    """
    with worker.database.read() as connection:
        chosen = bulk_runs.chosen(connection, worker.database, filters, owner=owner)
    keys = _spread([key for key, _ in chosen])
    previews: list[Preview] = []
    for number, key in enumerate(keys, 1):
        with worker.database.read() as connection:
            session = sessions.fetch(connection, key)
        planned = preview_pass(worker, session, CompactionOptions(), Trigger.RECOMPACT)
        if not isinstance(planned, NothingToCompact) and planned.saved_tokens > 0:
            previews.append(planned)
        on_progress(number, len(keys))
    return _sum(worker, chosen, keys, previews, local=local)


def _sum(
    worker: WorkerContext,
    chosen: Sequence[tuple[int, int]],
    keys: Sequence[int],
    previews: Sequence[Preview],
    *,
    local: bool,
) -> Estimate:
    whole = len(chosen) / len(keys) if keys else 0.0
    prices: PriceSettings = worker.settings.current().prices
    model = worker.summariser.model
    prompt = 0 if local else round(whole * sum(one.prompt_tokens for one in previews))
    answers = 0 if local else round(whole * sum(_answered(one) for one in previews))
    price = price_of(prices, model)
    money = None if price is None else cost(price, prompt_tokens=prompt, answer_tokens=answers)
    return Estimate(
        matched=len(chosen),
        live_tokens=sum(tokens for _, tokens in chosen),
        looked_at=len(keys),
        to_compact=round(whole * len(previews)),
        requests=0 if local else round(whole * sum(one.requests for one in previews)),
        prompt_tokens=prompt,
        answer_tokens=answers,
        tokens_saved=round(whole * sum(one.saved_tokens for one in previews)),
        model=model,
        money=0.0 if local else money,
        currency=prices.currency,
    )


def _answered(planned: Preview) -> int:
    """Return the tokens that models write in a pass: code adds the verbatim part."""
    return planned.requests * max(0, planned.summary_tokens - planned.verbatim_tokens)


def _spread(keys: Sequence[int]) -> list[int]:
    """Return at most `SAMPLE` of them, evenly spread, so that old and young ones are among them."""
    if len(keys) <= SAMPLE:
        return list(keys)
    return [keys[number * len(keys) // SAMPLE] for number in range(SAMPLE)]
