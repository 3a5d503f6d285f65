"""What search keeps beside its indexes, which are made at run time."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from storage.models.base import Base


class SearchPending(Base):
    """Rows that the search index does not have yet: a message's id, or a summary's, negative.

    Written by triggers, so also for rows that no function of ours inserts.
    """

    __tablename__ = "search_pending"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class SearchGeneration(Base):
    """A search index that is there or being built; its own tables bear its number."""

    __tablename__ = "search_generations"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    standing: Mapped[str]
    rules: Mapped[str]
    upto: Mapped[int]
    done: Mapped[int]
    created_at: Mapped[int]
