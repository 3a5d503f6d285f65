"""The base of every table."""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, Table
from sqlalchemy.orm import DeclarativeBase

from storage.types import EscapedText

BigKey = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    type_annotation_map = {str: EscapedText, int: BigInteger}  # noqa: RUF012 - read by SQLAlchemy


def table_of(mapped: type[Base]) -> Table:
    """Return the table behind a mapped class, for statements that are built once."""
    return Base.metadata.tables[mapped.__tablename__]
