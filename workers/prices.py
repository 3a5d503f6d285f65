"""What tokens cost, by the prices of the settings."""

from __future__ import annotations

from workers.price_settings import ModelPrice, PriceSettings

_MILLION = 1_000_000


def price_of(prices: PriceSettings, model: str) -> ModelPrice | None:
    """The price of a model: that of the longest key which is a part of its name, else None."""
    matching = [key for key in prices.models if key.lower() in model.lower()]
    return prices.models[max(matching, key=len)] if matching else None


def cost(
    price: ModelPrice, *, prompt_tokens: int = 0, cached_tokens: int = 0, answer_tokens: int = 0
) -> float:
    """What these tokens cost; `cached_tokens` are beside `prompt_tokens`, not among them."""
    cached = price.input if price.cached_input is None else price.cached_input
    whole = prompt_tokens * price.input + cached_tokens * cached + answer_tokens * price.output
    return whole / _MILLION
