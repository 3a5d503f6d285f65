"""Every metric by its name, by Prometheus convention: base units, counters end in `_total`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Type(StrEnum):
    """Prometheus's type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE_HISTOGRAM = "gauge histogram"
    INFO = "info"


class Source(StrEnum):
    """Who serves a metric."""

    DATABASE = "database"
    BROKER = "broker"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; `name` is that of its samples, for histograms without `_bucket`, `_sum`, …"""

    name: str
    type: Type
    labels: tuple[str, ...]
    help: str
    source: Source = Source.DATABASE


_G, _C, _H = Type.GAUGE, Type.COUNTER, Type.HISTOGRAM

BUILD = Metric(
    "afterturn_build_info", Type.INFO, ("version",), "Version of the exporter; always 1."
)
DATABASE_UP = Metric("afterturn_database_up", _G, (), "Whether the database could be read.")
JOBS = Metric(
    "afterturn_jobs", _G, ("queue", "state"),
    "Jobs that are due, wait for a later time, run, or are dead.",
)  # fmt: skip
OLDEST_DUE = Metric(
    "afterturn_oldest_due_job_age_seconds", _G, ("queue",),
    "How long the job that is due longest has been due; 0 without one.",
)  # fmt: skip
RETRYING = Metric(
    "afterturn_retrying_jobs", _G, ("queue",), "Due jobs whose earlier attempts failed."
)
PAUSED = Metric("afterturn_queue_paused", _G, ("queue",), "Whether an operator has paused it.")
LEASES = Metric(
    "afterturn_leases", _G, ("state",),
    "Running jobs whose lease is held, or has expired because the worker is gone.",
)  # fmt: skip
UNDECIDED = Metric(
    "afterturn_undecided_sessions", _G, (),
    "Sessions with a finished turn that no worker has decided about.",
)  # fmt: skip
EVENT_LAG = Metric(
    "afterturn_event_lag_seconds", _G, (),
    "Age of the oldest finished turn that no worker has decided about; 0 without one.",
)  # fmt: skip
COOLDOWNS = Metric(
    "afterturn_cooldowns", _G, (), "Sessions whose automatic passes rest after a failure."
)
LOCKED = Metric(
    "afterturn_locked_sessions", _G, (),
    "Sessions whose automatic batch passes are locked because they saved hardly anything.",
)  # fmt: skip
PLACEHOLDERS = Metric(
    "afterturn_placeholders", _G, (), "Sessions that show a placeholder made without a model."
)
OCCUPANCY = Metric(
    "afterturn_session_occupancy_ratio", Type.GAUGE_HISTOGRAM, (),
    "Live tokens as a share of the threshold, over the sessions active in the last day "
    "(at most 10,000).",
)  # fmt: skip
BREAKER_OPEN = Metric(
    "afterturn_breaker_open",
    _G,
    ("endpoint",),
    "Whether the model is not asked now.",
)
BREAKER_FAILURES = Metric(
    "afterturn_breaker_failures", _G, ("endpoint",), "Failures in a row that are the endpoint's."
)
PASSES = Metric(
    "afterturn_passes_total", _C, ("kind", "trigger", "outcome"), "Passes by their outcome."
)
PASS_ERRORS = Metric(
    "afterturn_pass_errors_total", _C, ("kind", "error_class"), "Passes that got no summary."
)
PASS_SECONDS = Metric(
    "afterturn_pass_duration_seconds", _H, ("kind",), "How long passes took, models included."
)
FREED = Metric(
    "afterturn_freed_tokens_total", _C, ("kind",),
    "Live tokens that passes took away, net of what they put in place.",
)  # fmt: skip
ADDED = Metric(
    "afterturn_added_tokens_total", _C, ("kind",),
    "Live tokens that passes added where they put in more than they took away.",
)  # fmt: skip
MODEL_REQUESTS = Metric(
    "afterturn_model_requests_total", _C, ("model",), "Requests to summarising models."
)
PROMPT_TOKENS = Metric(
    "afterturn_model_prompt_tokens_total", _C, ("model",), "Prompt tokens that models counted."
)
COMPLETION_TOKENS = Metric(
    "afterturn_model_completion_tokens_total", _C, ("model",),
    "Completion tokens that models counted.",
)  # fmt: skip
MODEL_ERRORS = Metric(
    "afterturn_model_errors_total", _C, ("model", "error_class"), "Passes that a model failed."
)
ANSWER_SECONDS = Metric(
    "afterturn_model_answer_duration_seconds", _H, ("model",),
    "How long models took for the answers of a pass.",
)  # fmt: skip
BROKER_UP = Metric("afterturn_broker_up", _G, (), "Whether the broker answered.", Source.BROKER)
MESSAGES = Metric(
    "afterturn_broker_messages", _G, ("queue",), "Messages that wait at the broker.", Source.BROKER
)
WORKERS = Metric(
    "afterturn_workers", _G, ("queue",), "Workers that answered and work the queue.", Source.BROKER
)
WORKER_JOBS = Metric(
    "afterturn_worker_jobs_total", _C, ("task", "state"),
    "Tasks that this worker ended, by Celery's state.", Source.WORKER,
)  # fmt: skip
WORKER_SECONDS = Metric(
    "afterturn_worker_job_duration_seconds", _H, ("task",),
    "How long this worker's tasks took.", Source.WORKER,
)  # fmt: skip
WORKER_RUNNING = Metric(
    "afterturn_worker_running_jobs", _G, (), "Tasks that this worker runs now.", Source.WORKER
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
