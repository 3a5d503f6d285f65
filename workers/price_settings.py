"""Block `prices`: what models cost, for estimates and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from workers.setting_types import Allowed, Block

_MOST = 100_000


class ModelPrice(Block):
    """What a million tokens of a model cost."""

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
    """Prices of models. None is built in, as they change; what is not named here costs an unknown
    amount. Read at the start."""

    currency: str = Field(
        "USD", min_length=1, max_length=8, description="What prices are in, as reports show it."
    )
    models: Annotated[
        Mapping[Annotated[str, Field(min_length=1)], ModelPrice],
        Allowed("mapping from a part of a model's name to input, cached_input and output"),
    ] = Field(
        default_factory=dict,
        description="Prices of a million tokens by model; the longest part of its name that "
        "matches counts. Reports and estimates show money where they know them.",
    )
