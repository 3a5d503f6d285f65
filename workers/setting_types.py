"""What every block of settings has in common: strictness, units, words for allowed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number counts, as annotation on its field: `seconds`, `tokens`."""

    name: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """Words for the allowed values, and for the default, where deriving them would mislead."""

    text: str
    default: str = ""


Seconds = Annotated[float, Unit("seconds")]
Tokens = Annotated[int, Unit("tokens")]
Share = Annotated[float, Field(ge=0.05, le=0.95)]
"""A share of a window. The upper bound keeps every threshold below the usable window."""


class Block(BaseModel):
    """A frozen block of settings that refuses unknown keys and converts nothing but int to float.

    A key with nothing behind it (`compression:` with every line below it commented out) counts as
    left out, where the default is a block, a list, a mapping or made at run time.
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _nothing_is_left_out(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.field_name is not None:
            field = cls.model_fields[info.field_name]
            if field.default_factory is not None:
                return field.get_default(call_default_factory=True, validated_data=info.data)
        return value
