"""All settings of a service as one frozen, validated value."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from workers.settings.base import Allowed, Block, Seconds, UnitName
from workers.settings.compression import CompressionSettings
from workers.settings.prices import PriceSettings
from workers.settings.urls import broker_url, database_url, default_database_url
from workers.summariser.endpoints import SummariserSettings

_HOUR = 3600
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY
_MOST_DAYS = 3650

Days = Annotated[float, UnitName("days")]


class AuxiliarySettings(Block):
    """Models that serve the service itself, not the conversation."""

    compression: SummariserSettings = Field(default_factory=SummariserSettings)


class WorkerSettings(Block):
    """The settings of a worker. Read at its start."""

    concurrency: Annotated[int, UnitName("jobs")] = Field(
        8, ge=1, le=256, description="Jobs at the same time, one thread each."
    )
    bulk_at_once: Annotated[int, UnitName("jobs")] = Field(
        2,
        ge=1,
        le=256,
        description="Jobs of queue recompact (passes over idle sessions) at the same time, by all "
        "workers together.",
    )
    lease_seconds: Seconds = Field(
        60,
        ge=5,
        le=3600,
        description="How long a job belongs to a worker that no longer renews its lease.",
    )
    stop_seconds: Seconds = Field(
        600,
        ge=0,
        le=3600,
        description="How long a worker that stops lets running model calls continue before it "
        "hands their jobs to other workers.",
    )
    poll_seconds: Seconds = Field(
        0.5,
        ge=0.01,
        le=1,
        description="Pause between two polls of the jobs table without a broker.",
    )


class ScheduleSettings(Block):
    """The intervals of scheduled tasks. Read at the start."""

    reconcile_seconds: Seconds = Field(
        10,
        ge=1,
        le=_HOUR,
        description="Pause between two searches for due jobs whose notification was lost.",
    )
    orphans_seconds: Seconds = Field(
        60,
        ge=1,
        le=_DAY,
        description="Pause between two searches for sessions with due work but without a job, such "
        "as those whose cooldown has ended.",
    )
    idle_seconds: Seconds = Field(
        60,
        ge=1,
        le=_DAY,
        description="Pause between two searches for idle sessions; see "
        "compression.idle_compact_after_seconds.",
    )
    retention_seconds: Seconds = Field(
        3600,
        ge=1,
        le=_WEEK,
        description="Pause between two deletions of what block retention no longer keeps.",
    )
    database_seconds: Seconds = Field(
        3600,
        ge=1,
        le=_WEEK,
        description="Pause between two rounds of maintenance of a SQLite file: log and statistics.",
    )
    search_seconds: Seconds = Field(
        10,
        ge=1,
        le=_HOUR,
        description="Pause between two rounds of indexing new messages. Searches find them before "
        "that, too, by reading them.",
    )


class RetentionSettings(Block):
    """How long records are kept; messages and summaries are never deleted. Read at the start."""

    jobs_days: Days = Field(
        7, ge=0, le=_MOST_DAYS, description="Finished jobs. Dead ones stay until they are dropped."
    )
    attempts_days: Days = Field(90, ge=1, le=_MOST_DAYS, description="Records of passes.")
    signals_days: Days = Field(
        30, ge=1, le=_MOST_DAYS, description="Signals, whether a gateway has read them or not."
    )
    answers_days: Days = Field(
        1,
        ge=0.01,
        le=_MOST_DAYS,
        description="Answers of models that no open job waits for any more.",
    )
    events_days: Days = Field(
        365,
        ge=1,
        le=_MOST_DAYS,
        description="Events of a session after its end. Until then each is kept, so that a turn "
        "that is sent again is not stored again.",
    )
    audit_days: Days = Field(
        0,
        ge=0,
        le=_MOST_DAYS,
        description="The audit trail: who did what; 0 keeps it forever.",
    )


class Settings(Block):
    """All settings, each value checked.

    Keys of model endpoints are not settings: they come from the environment when an endpoint is
    resolved. Neither URL shows in `repr`, as they may hold passwords.
    """

    database_url: Annotated[
        str,
        Allowed(
            "sqlite:///FILE or postgresql:// URL",
            default="SQLite file afterturn.db in the user's data directory",
        ),
    ] = Field(
        default_factory=default_database_url,
        repr=False,
        description="The shared database. Environment: DATABASE_URL.",
    )
    broker_url: Annotated[str | None, Allowed("broker URL, or null")] = Field(
        None,
        repr=False,
        description="Redis or RabbitMQ that notifies workers on other hosts; null for the embedded "
        "worker, which polls. Environment: BROKER_URL.",
    )
    compression: CompressionSettings = Field(default_factory=CompressionSettings)
    auxiliary: AuxiliarySettings = Field(default_factory=AuxiliarySettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    prices: PriceSettings = Field(default_factory=PriceSettings)

    @field_validator("database_url")
    @classmethod
    def _is_a_database(cls, value: str) -> str:
        return database_url(value)

    @field_validator("broker_url")
    @classmethod
    def _is_a_broker(cls, value: str | None) -> str | None:
        return None if value is None else broker_url(value)
