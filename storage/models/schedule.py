"""The schedule and its queues."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from storage.models.base import Base

PAUSED_QUEUE = "paused_at IS NOT NULL"


class ScheduleSlot(Base):
    """A tick of a schedule that somebody has taken: slot `n` is the n-th interval since 1970."""

    __tablename__ = "schedule_slots"

    schedule: Mapped[str] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    taken_at: Mapped[int]


class QueueState(Base):
    """A queue that operators have paused, or had paused before, or that serves owners in turn."""

    __tablename__ = "queue_states"

    name: Mapped[str] = mapped_column(primary_key=True)
    paused_at: Mapped[int | None]
    reason: Mapped[str] = mapped_column(server_default="")
    last_owner: Mapped[str | None]
