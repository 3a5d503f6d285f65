"""Block `prices`: prices of models, and the cost of a number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from workers.settings.base import Allowed, Block

_MOST = 100_000
_MILLION = 1_000_000


class ModelPrice(Block):
    """The price of a million tokens of a model."""

    input: float = Field(ge=0, le=_MOST, description="A million tokens of a request.")
    cached_input: float | None = Field(
        None,
        ge=0,
        le=_MOST,
        description="A million tokens of a request that the provider has in its cache; null where "
        "they cost as much as others.",
    )
    output: float = Field(0, ge=0, le=_MOST, description="A million tokens of an answer.")


class PriceSettings(Block):
    """Prices of models. Read at the start.

    None is built in, since they change; the cost of a model that is not named here is unknown.
    """

    currency: str = Field(
        "USD", min_length=1, max_length=8, description="Currency of the prices, as reports show it."
    )
    models: Annotated[
        Mapping[Annotated[str, Field(min_length=1)], ModelPrice],
        Allowed("mapping from a part of a model's name to input, cached_input and output"),
    ] = Field(
        default_factory=dict,
        description="Prices of a million tokens by model; the longest part of its name that "
        "matches counts. Reports and estimates show money where they know them.",
    )


def price_of(prices: PriceSettings, model: str) -> ModelPrice | None:
    """Return the price of a model: of the longest key that is a part of its name, else None."""
    matching = [key for key in prices.models if key.lower() in model.lower()]
    return prices.models[max(matching, key=len)] if matching else None


def cost(
    price: ModelPrice, *, prompt_tokens: int = 0, cached_tokens: int = 0, answer_tokens: int = 0
) -> float:
    """Return the cost of these tokens; `prompt_tokens` does not include `cached_tokens`."""
    cached = price.input if price.cached_input is None else price.cached_input
    whole = prompt_tokens * price.input + cached_tokens * cached + answer_tokens * price.output
    return whole / _MILLION
