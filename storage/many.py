"""Conditions on many values that are one parameter, so that a statement is the same for each
number of them: databases plan a list of another length anew."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Text, any_, bindparam, func, select


def is_one_of(dialect: str, column: Any, name: str) -> ColumnElement[bool]:
    """That an integer `column` is one of the values of parameter `name`; see `given`."""
    if dialect == "postgresql":
        many: ColumnElement[bool] = column == any_(bindparam(name, type_=ARRAY(BigInteger)))
        return many
    values = func.json_each(bindparam(name, type_=Text)).table_valued("value")
    one: ColumnElement[bool] = column.in_(select(values.c.value))
    return one


def given(dialect: str, values: Iterable[int]) -> Any:
    """What the parameter of `is_one_of` is for those values."""
    return list(values) if dialect == "postgresql" else json.dumps(list(values))
