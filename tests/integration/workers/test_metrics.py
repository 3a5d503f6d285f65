"""Metrics: all of them exist, they show what is stored, and counters never shrink."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any

import pytest
from celery import Celery
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text as sql

from afterturn.credentials import Credentials, Place
from afterturn.exits import CommandError
from afterturn.metrics.catalogue import METRICS, Source, Type
from afterturn.metrics.collector import deployment_registry
from afterturn.metrics.server import MetricsServer
from afterturn.metrics.worker import WorkerMetrics
from storage import attempts, endpoints, guards, measures
from storage.attempts import AttemptRecord
from storage.engine import Database, open_database
from storage.guards import GuardName
from storage.jobs import JobKind
from storage.measures import SETTLED_MS
from tests.support.sessions.chat import assistant, user
from tests.support.sessions.gateways import rows_of, url_of
from tests.support.sessions.stored_jobs import Worker
from tests.support.sessions.stored_session import StoredSession, later
from workers.runtime.context import WorkerContext
from workers.scans.retention import delete_expired
from workers.settings import RetentionSettings, Settings, SettingsSource
from workers.summariser.extractive.local import LocalSummariser
from workers.telemetry.tally import count_tries

DAY = 86_400_000
PAIR = "prometheus:a long password"


def tried(outcome: str, *, before: int = 5000, after: int = 4000, **more: Any) -> AttemptRecord:
    good = AttemptRecord(
        None, "micro", "micro", outcome, 9, 5, before, after, 0, 1, 0, 9,
        model="m", requests=1, prompt_tokens=100, completion_tokens=10, total_ms=700, model_ms=600,
    )  # fmt: skip
    return replace(good, **more)


def record(database: Database, session: StoredSession, *records: AttemptRecord) -> None:
    with database.write() as connection:
        for one in records:
            attempts.record(connection, database, session.key, one)


def scrape(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Samples by name and labels, as Prometheus reads them."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def scraped(database: Database, broker_url: str | None = None) -> dict[str, dict[str, float]]:
    """Samples by name, then by the values of their labels."""
    settings = Settings(database_url=url_of(database), broker_url=broker_url)
    found: dict[str, dict[str, float]] = {}
    for (name, labels), value in scrape(deployment_registry(database, lambda: settings)).items():
        found.setdefault(name, {})[" ".join(value for _, value in labels)] = value
    return found


@pytest.fixture
def session(database: Database) -> StoredSession:
    """Return a session with tries of every kind."""
    session = StoredSession.create(database, model="gpt", context_window=100_000)
    session.append([user("question"), assistant("answer " * 4000)])
    record(
        database,
        session,
        tried("absorbed"),
        tried("absorbed", before=4000, after=4300),
        tried("failed", after=5000, error_class="auth", model_ms=0),
    )
    return session


def test_every_metric_exists_with_its_labels_and_no_other_does(
    database: Database, session: StoredSession, redis_url: str
) -> None:
    with database.write() as connection:
        endpoints.lock(connection, database, "m at host")
    found = scrape(
        deployment_registry(
            database, lambda: Settings(database_url=url_of(database), broker_url=redis_url)
        )
    )
    with WorkerMetrics() as counted:
        run_a_task()
        ours = scrape(counted.registry)
    assert any(name.startswith("process_") for name, _ in ours)
    found |= {key: value for key, value in ours.items() if key[0].startswith("afterturn_")}
    labels_by_name = {name: {label for label, _ in labels} for name, labels in found}
    expected: dict[str, set[str]] = {}
    for metric in METRICS:
        labels = set(metric.labels)
        match metric.type:
            case Type.HISTOGRAM:
                expected[f"{metric.name}_bucket"] = labels | {"le"}
                expected |= {f"{metric.name}_sum": labels, f"{metric.name}_count": labels}
            case Type.GAUGE_HISTOGRAM:
                expected[f"{metric.name}_bucket"] = labels | {"le"}
                expected |= {f"{metric.name}_gsum": labels, f"{metric.name}_gcount": labels}
            case _:
                expected[metric.name] = labels
    created = {name for name in labels_by_name if name.endswith("_created")}
    assert {name: labels_by_name[name] for name in labels_by_name.keys() - created} == expected


def run_a_task() -> None:
    app = Celery("metrics", set_as_current=False)

    @app.task(name="turns.finalize", shared=False)
    def finalize() -> str:
        return "done"

    assert finalize.apply().state == "SUCCESS"


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in METRICS:
        assert metric.name.startswith("afterturn_")
        assert metric.name.islower()
        assert (metric.type is Type.COUNTER) == metric.name.endswith("_total")
        assert not metric.name.endswith(("_ms", "_minutes", "_milliseconds"))
        assert metric.help.endswith((".", ")."))
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert {metric.source for metric in METRICS} == set(Source)


def test_passes_tokens_and_models_are_those_of_the_records(
    database: Database, session: StoredSession
) -> None:
    found = scraped(database)
    assert found["afterturn_passes_total"] == {
        "micro absorbed micro": 2.0,
        "micro failed micro": 1.0,
    }
    assert found["afterturn_pass_errors_total"] == {"auth micro": 1.0}
    assert found["afterturn_freed_tokens_total"] == {"micro": 1000.0}
    assert found["afterturn_added_tokens_total"] == {"micro": 300.0}
    assert found["afterturn_model_requests_total"] == {"m": 3.0}
    assert found["afterturn_model_errors_total"] == {"auth m": 1.0}
    assert found["afterturn_pass_duration_seconds_sum"] == {"micro": pytest.approx(2.1)}
    assert found["afterturn_pass_duration_seconds_count"] == {"micro": 3.0}
    assert found["afterturn_model_answer_duration_seconds_count"] == {"m": 2.0}
    buckets = found["afterturn_model_answer_duration_seconds_bucket"]
    assert (buckets["0.5 m"], buckets["1 m"], buckets["+Inf m"]) == (0.0, 2.0, 2.0)


def test_queues_guards_leases_and_lag_are_those_of_now(
    database: Database, session: StoredSession
) -> None:
    held, lost, ill = (StoredSession.create(database, name) for name in ("held", "lost", "ill"))
    worker = Worker(database)
    worker.take(held.enqueue(JobKind.BATCH))
    worker.take(lost.enqueue(JobKind.BATCH))
    waiting = session.enqueue(JobKind.TURN)
    with database.write() as connection:
        guards.put(connection, database, ill.key, GuardName.COOLDOWN, hold_ms=60_000)
        guards.put(connection, database, ill.key, GuardName.POOR_PASSES, count=2, hold_ms=60_000)
        connection.execute(
            sql("UPDATE jobs SET lease_until = 1 WHERE session_key = :key"), {"key": lost.key}
        )
        connection.execute(
            sql("UPDATE jobs SET run_at = run_at - 90000, attempt = 1 WHERE id = :id"),
            {"id": waiting.id},
        )
        connection.execute(sql("UPDATE turn_events SET created_at = created_at - 45000, turn = 1"))
        connection.execute(
            sql("UPDATE sessions SET turns = 1, decided_turns = 0 WHERE key = :key"),
            {"key": session.key},
        )
    found = scraped(database)
    assert found["afterturn_leases"] == {"held": 1.0, "expired": 1.0}
    assert found["afterturn_cooldowns"] == {"": 1.0}
    assert found["afterturn_locked_sessions"] == {"": 1.0}
    assert found["afterturn_undecided_sessions"] == {"": 1.0}
    assert 45 <= found["afterturn_event_lag_seconds"][""] < 60
    assert found["afterturn_retrying_jobs"][waiting.queue] == 1.0
    assert 90 <= found["afterturn_oldest_due_job_age_seconds"][waiting.queue] < 110
    assert found["afterturn_jobs"][f"{waiting.queue} due"] == 1.0
    later_on = scraped(later(database, 120_000))
    assert later_on["afterturn_cooldowns"] == {"": 0.0}
    assert later_on["afterturn_locked_sessions"] == {"": 0.0}


def test_occupancy_is_of_open_sessions_of_the_last_day(
    database: Database, session: StoredSession
) -> None:
    with database.write() as connection:
        connection.execute(sql("UPDATE sessions SET live_tokens = 74000"))
    buckets = scraped(database)["afterturn_session_occupancy_ratio_bucket"]
    # The threshold of a window of 100,000 tokens is 75,000.
    assert (buckets["0.85"], buckets["1"], buckets["+Inf"]) == (0.0, 1.0, 1.0)
    old = scraped(later(database, 2 * DAY))["afterturn_session_occupancy_ratio_bucket"]
    assert old["+Inf"] == 0.0


def test_counters_never_shrink_when_records_are_deleted(
    database: Database, session: StoredSession
) -> None:
    before = scraped(database)
    settings = Settings(
        database_url=url_of(database), retention=RetentionSettings(attempts_days=30)
    )
    at = later(database, 31 * DAY)
    gone = delete_expired(WorkerContext(at, SettingsSource.fixed(settings), LocalSummariser()))
    assert gone.attempts == 3
    after = scraped(database)
    counters = [metric.name for metric in METRICS if metric.type is Type.COUNTER]
    for name in [*counters, "afterturn_pass_duration_seconds_bucket"]:
        assert after.get(name) == before.get(name), name
    record(database, session, tried("absorbed"))
    assert scraped(database)["afterturn_passes_total"]["micro absorbed micro"] == 3.0


def test_a_number_that_was_counted_is_never_given_to_another_try(
    database: Database, session: StoredSession
) -> None:
    assert count_tries(later(database, SETTLED_MS + 1000)) == 3
    with database.write() as connection:
        connection.execute(sql("DELETE FROM attempts"))
    record(database, session, tried("absorbed"))
    assert scraped(database)["afterturn_passes_total"]["micro absorbed micro"] == 3.0


def test_young_tries_are_not_counted_for_good(database: Database, session: StoredSession) -> None:
    # One with a lower number may be committed yet.
    assert count_tries(database) == 0
    settled = later(database, SETTLED_MS + 1000)
    record(settled, session, tried("absorbed"))
    assert count_tries(settled) == 3
    with database.read() as connection:
        counted, mark = measures.read(connection)
    assert counted["tries", ("micro", "micro", "absorbed")] == 2
    ((last,),) = rows_of(database, "SELECT max(id) FROM attempts")
    assert mark == last - 1
    assert scraped(database)["afterturn_passes_total"]["micro absorbed micro"] == 3.0


def test_counting_again_and_again_counts_once(database: Database, session: StoredSession) -> None:
    before = scraped(database)["afterturn_passes_total"]
    settled = later(database, SETTLED_MS + 1000)
    assert [count_tries(settled) for _ in range(3)] == [3, 0, 0]
    assert scraped(database)["afterturn_passes_total"] == before


def test_a_database_that_is_away_is_a_figure_too(sqlite_url: str) -> None:
    database = open_database(sqlite_url)
    assert scraped(database)["afterturn_database_up"] == {"": 0.0}
    database.close()


def test_a_broker_that_is_away_is_a_figure_too(database: Database) -> None:
    found = scraped(database, "redis://127.0.0.1:1/0")
    assert found["afterturn_broker_up"] == {"": 0.0}
    assert found["afterturn_database_up"] == {"": 1.0}


@contextmanager
def serving(credentials: Credentials | None = None) -> Iterator[HTTPConnection]:
    server = MetricsServer(CollectorRegistry(), Place("127.0.0.1", 0), credentials)
    server.start()
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        yield connection
    finally:
        connection.close()
        server.close()


def status(connection: HTTPConnection, path: str = "/metrics", **headers: str) -> int:
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_metrics_are_served_to_those_who_know_the_password() -> None:
    right = "Basic " + b64encode(PAIR.encode()).decode()
    with serving(Credentials((PAIR,))) as connection:
        assert status(connection) == 401
        assert status(connection, Authorization="Basic bm86bm8=") == 401
        assert status(connection, Authorization=right) == 200
        assert status(connection, Authorization=right, Host="metrics.internal") == 200
        assert status(connection, "/elsewhere", Authorization=right) == 404


def test_without_a_password_only_this_host_by_its_own_name_is_answered() -> None:
    with serving() as connection:
        assert status(connection) == 200
        assert status(connection, Host="localhost:9464") == 200
        # What a page in a browser of this host would ask, once its name leads here.
        assert status(connection, Host="rebound.example") == 403


def test_an_answer_says_little_of_its_server_and_is_kept_by_nobody() -> None:
    with serving() as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        answer.read()
        assert answer.getheader("Server") == "afterturn"
        assert answer.getheader("Cache-Control") == "no-store"
        connection.request("POST", "/metrics")
        assert connection.getresponse().status == 405


def test_other_hosts_are_never_let_in_without_a_password() -> None:
    with pytest.raises(CommandError, match="other hosts can reach"):
        MetricsServer(CollectorRegistry(), Place("0.0.0.0", 0))
