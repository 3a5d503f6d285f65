"""What the doctor finds where no server is needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afterturn import installation
from afterturn.doctor.database import check_database
from afterturn.doctor.deployment import (
    WORKED_QUEUES,
    check_broker,
    check_packages,
    read_configuration,
)
from afterturn.doctor.finding import Finding, Status, within
from afterturn.doctor.jobs import check_breakers, check_jobs, check_sessions
from afterturn.doctor.summariser import check_slowness, check_summarisers
from storage import attempts, endpoints, guards, migrate
from storage.attempts import AttemptRecord
from storage.engine import Database, open_database
from storage.guards import GuardName
from storage.jobs import JobKind, enqueue, queue_states
from tests.support.model.behaviours import Good, Plan, Silence
from tests.support.model.behaviours import Status as Answers
from tests.support.model.server import ModelServer
from tests.support.sessions.gateways import gateway_on
from tests.support.sessions.later_revision import install_later_revision
from workers.settings import Settings
from workers.settings.urls import database_url
from workers.summariser.contract import ErrorClass, SummariserError
from workers.summariser.gate import Permit, SharedGate
from workers.summariser.rate_limits import Limits


def compressing(**model: Any) -> Settings:
    return Settings.model_validate({"auxiliary": {"compression": model}})


def test_a_question_is_waited_for_no_longer_than_asked() -> None:
    never = threading.Event()
    with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
        within(0.05, never.wait)
    never.set()
    assert within(5, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)


def test_a_broken_configuration_is_found_with_its_key_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("compression:\n  treshold: 0.5\n")
    settings, finding = read_configuration(file)
    assert settings is None
    assert finding.status is Status.FAIL
    assert "compression.treshold" in finding.detail
    assert "threshold" in finding.detail
    assert str(file) in finding.advice


def test_the_default_database_may_be_still_to_come_and_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "new"))
    database, [finding] = check_database(Settings().database_url)
    assert database is None
    assert finding.status is Status.OK
    assert "no database yet" in finding.detail
    assert not (tmp_path / "new").exists()


def test_a_database_that_was_named_and_is_not_there_is_a_warning_and_is_not_made(
    tmp_path: Path,
) -> None:
    file = tmp_path / "new" / "afterturn.db"
    database, [finding] = check_database(database_url(f"sqlite:///{file}"))
    assert database is None
    assert finding.status is Status.WARN
    assert "no such file" in finding.detail
    assert "DATABASE_URL" in finding.advice
    assert not file.parent.exists()


def test_a_transport_without_its_library_is_a_failure_that_says_what_to_install() -> None:
    [finding] = check_broker("librabbitmq://guest:hunter2@h")
    assert finding.status is Status.FAIL
    assert "librabbitmq" in finding.detail
    assert "install" in finding.advice
    assert "hunter2" not in finding.detail


def test_workers_are_missed_only_on_queues_that_have_tasks() -> None:
    assert WORKED_QUEUES == ("turns", "micro", "batch", "prune", "maintenance")


def test_a_place_that_cannot_hold_a_database_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    database, findings = check_database(f"sqlite:///{tmp_path}/file/afterturn.db")
    assert database is None
    assert findings[-1].status is Status.FAIL
    assert findings[-1].advice


def test_old_tables_are_a_warning_and_newer_ones_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'afterturn.db'}"
    database = open_database(url)
    migrate.upgrade(database)
    install_later_revision(tmp_path / "migrations", monkeypatch)
    _, findings = check_database(url)
    assert [(f.check, f.status) for f in findings] == [
        ("database", Status.OK),
        ("tables", Status.WARN),
    ]
    assert "db upgrade" in findings[1].advice
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    _, findings = check_database(url)
    assert findings[1].status is Status.FAIL
    assert "newer" in findings[1].detail


def test_a_file_that_is_no_database_is_found(tmp_path: Path) -> None:
    file = tmp_path / "afterturn.db"
    file.write_text("a shopping list, rather long, " * 50)
    _, [finding] = check_database(f"sqlite:///{file}")
    assert finding.status is Status.FAIL
    assert "not a database" in finding.detail


def found_of_jobs(database: Database) -> dict[str, Finding]:
    return {finding.check: finding for finding in check_jobs(database)}


def test_jobs_that_wait_for_long_dead_ones_and_pauses_are_warnings(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'afterturn.db'}"
    with gateway_on(url) as gateway:
        session = gateway.open_session()
    database, findings = check_database(url)
    assert database is not None
    assert {finding.status for finding in findings} == {Status.OK}
    assert {finding.status for finding in check_jobs(database)} == {Status.OK}
    with database.write() as connection:
        enqueue(connection, database, session.key, kind=JobKind.TURN, queue="turns", trigger="turn")
        connection.exec_driver_sql("UPDATE jobs SET run_at = run_at - 540000")
    assert {finding.status for finding in check_jobs(database)} == {Status.OK}
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE jobs SET run_at = run_at - 3060000")
    waiting = found_of_jobs(database)["jobs"]
    assert waiting.status is Status.WARN
    assert "1 due" in waiting.detail
    assert "60 min" in waiting.detail
    assert "afterturn up" in waiting.advice
    with database.write() as connection:
        queue_states.pause(connection, database, ["turns"], reason="an upgrade")
    found = found_of_jobs(database)
    assert found["jobs"].status is Status.OK
    assert found["paused queues"].status is Status.WARN
    assert "turns since" in found["paused queues"].detail
    assert "(an upgrade)" in found["paused queues"].detail
    assert "queues resume turns" in found["paused queues"].advice
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE jobs SET state = 'dead', reason = 'KeyError'")
    dead = found_of_jobs(database)["dead jobs"]
    assert dead.status is Status.WARN
    assert "1 job given up, 1 of them for the reason 'KeyError'" in dead.detail
    assert "afterturn dead list" in dead.advice
    database.close()


def test_without_a_broker_there_is_nothing_to_reach() -> None:
    [finding] = check_broker(None)
    assert finding.status is Status.OK
    assert "afterturn up" in finding.detail


def test_a_broker_that_refuses_is_found_without_showing_its_password() -> None:
    [finding] = check_broker("redis://:hunter2@127.0.0.1:1/0")
    assert finding.status is Status.FAIL
    assert "127.0.0.1:1" in finding.detail
    assert "hunter2" not in finding.detail + finding.advice


def test_the_built_in_summariser_says_that_it_serves() -> None:
    [finding] = check_summarisers(Settings(), {}, ask=True)
    assert finding.status is Status.OK
    assert "built-in local one" in finding.detail


def test_a_missing_key_is_a_failure_that_names_it() -> None:
    settings = compressing(provider="openai", model="small")
    [finding] = check_summarisers(settings, {}, ask=True)
    assert finding.status is Status.FAIL
    assert "OPENAI_API_KEY" in finding.advice


def test_a_model_that_answers_is_fine_and_its_key_is_never_shown() -> None:
    with ModelServer() as server:
        settings = compressing(base_url=server.base_url, model="small")
        [finding] = check_summarisers(settings, {"OPENAI_API_KEY": "sk-hush"}, ask=True)
        assert len(server.requests) == 1
        [unasked] = check_summarisers(settings, {"OPENAI_API_KEY": "sk-hush"}, ask=False)
        assert len(server.requests) == 1
    assert finding.status is Status.OK
    assert "small at http://127.0.0.1" in finding.detail
    assert "with a key" in finding.detail
    assert "hush" not in finding.detail
    assert unasked.status is Status.OK


def test_models_that_refuse_and_models_that_say_nothing_useful_are_distinguished() -> None:
    with ModelServer() as server:
        settings = compressing(base_url=server.base_url, model="small")

        def found(behaviour: Any, seconds: float = 15) -> Any:
            server.fail_next(behaviour)
            return check_summarisers(settings, {}, ask=True, seconds=seconds)[0]

        refused, planned, silent = found(Answers(401)), found(Plan()), found(Silence(), 0.3)
    assert refused.status is Status.FAIL
    assert "OPENAI_API_KEY" in refused.advice
    assert planned.status is Status.WARN
    assert "plan" in planned.detail
    assert silent.status is Status.WARN
    assert "did not answer within 0.3 s" in silent.detail


def test_a_fallback_that_fails_is_only_a_warning() -> None:
    with ModelServer() as server:
        settings = compressing(
            base_url=server.base_url,
            model="small",
            fallback_chain=[{"base_url": "http://127.0.0.1:1/v1", "model": "other"}],
        )
        server.fail_next(Good())
        first, second = check_summarisers(settings, {}, ask=True)
    assert (first.status, second.status) == (Status.OK, Status.WARN)
    assert "other at http://127.0.0.1:1/v1" in second.detail


def test_packages_of_the_same_name_in_other_distributions_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped = {"storage": ["cloud-storage", "afterturn"], "tasks": ["afterturn"], "rich": ["rich"]}
    monkeypatch.setattr(installation, "packages_distributions", lambda: shipped)
    names, _ = check_packages()
    assert names.status is Status.WARN
    assert "storage (cloud-storage)" in names.detail
    assert "tasks" not in names.detail
    assert "environment of its own" in names.advice


def test_this_installation_is_in_order_and_names_its_versions() -> None:
    names, versions = check_packages()
    assert names.status is Status.OK
    assert "celery 5." in versions.detail
    assert "Python 3." in versions.detail


def test_a_package_that_python_loads_from_elsewhere_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "PACKAGES", ("storage", "json"))
    names, _ = check_packages()
    assert names.status is Status.FAIL
    assert "json from" in names.detail
    assert "storage" not in names.detail


# --- slow models, breakers, sessions that are held -------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path / 'afterturn.db'}"
    with gateway_on(url) as gateway:
        for name in ("one", "two", "three"):
            gateway.open_session(name)
    opened = open_database(url)
    yield opened
    opened.close()


def answered(database: Database, *model_ms: int, model: str) -> None:
    """Record answers of a model that took so long."""
    for ms in model_ms:
        record = AttemptRecord(
            job_id=None, kind="batch", trigger="manual", outcome="compacted", messages_before=0,
            messages_after=0, tokens_before=0, tokens_after=0, cursor=0, passes=0, tokens_saved=0,
            threshold_tokens=0, model=model, requests=1, model_ms=ms,
        )  # fmt: skip
        with database.write() as connection:
            attempts.record(connection, database, 1, record)


def slow(database: Database | None, model: str) -> list[str]:
    settings = compressing(base_url="http://h/v1", model=model)
    found = check_slowness(settings, {}, database)
    assert all(finding.status is Status.WARN for finding in found)
    assert all("does not reason" in finding.advice for finding in found)
    return [finding.detail for finding in found]


def test_a_model_that_reasons_by_its_name_is_a_warning(database: Database) -> None:
    assert slow(database, "small-instruct") == []
    assert slow(None, "small-instruct") == []
    [finding] = slow(database, "o3-mini")
    assert "reasons before it answers, as its name tells" in finding
    assert slow(None, "qwen3-30b-thinking") != []


def test_a_model_is_slow_when_the_median_of_five_answers_is_above_a_minute(
    database: Database,
) -> None:
    answered(database, 60_001, 60_001, 60_001, 1, model="small")
    assert slow(database, "small") == []
    answered(database, 1, model="small")
    [finding] = slow(database, "small")
    assert "small takes 60.0 s for an answer, the median of its last 5" in finding
    answered(database, 1, model="small")
    assert slow(database, "small") == []


def test_measured_answers_say_more_than_a_name(database: Database) -> None:
    answered(database, *[2_000] * 5, model="o3-mini")
    assert slow(database, "o3-mini") == []
    answered(database, *[90_000] * 9, model="o3-mini")
    [finding] = slow(database, "o3-mini")
    assert "and reasons first" in finding


def test_every_model_of_the_chain_is_looked_at() -> None:
    fallback = {"base_url": "http://h/v1", "model": "deepseek-reasoner"}
    settings = compressing(base_url="http://h/v1", model="small", fallback_chain=[fallback])
    [finding] = check_slowness(settings, {}, None)
    assert "deepseek-reasoner" in finding.detail
    assert check_slowness(Settings(), {}, None) == []
    assert check_slowness(compressing(provider="openai", model="o3"), {}, None) == []


def test_an_open_breaker_of_a_configured_model_is_a_warning(database: Database) -> None:
    settings, gate = compressing(base_url="http://h/v1", model="small"), SharedGate(database)
    for route in ("small at h", "former at h"):
        for _ in range(3):
            permit = gate.admit(route, Limits(), tokens=1, longest_seconds=1)
            assert isinstance(permit, Permit)
            gate.failed(permit, SummariserError(ErrorClass.AUTH))
    [finding] = check_breakers(database, settings, {})
    assert finding.status is Status.WARN
    assert "small at h is down after 3 failures (auth); nobody asks it for" in finding.detail
    assert "guards clear --endpoint 'small at h'" in finding.advice
    with database.write() as connection:
        endpoints.close_breaker(connection)
    assert check_breakers(database, settings, {}) == []


def test_sessions_that_rest_are_locked_or_exhausted_are_counted(database: Database) -> None:
    settings = Settings().compression
    assert check_sessions(database, settings).status is Status.OK
    with database.write() as connection:
        for key in (1, 2):
            guards.put(connection, database, key, GuardName.COOLDOWN, hold_ms=60_000)
        guards.put(connection, database, 3, GuardName.COOLDOWN, hold_ms=0)
        guards.put(connection, database, 1, GuardName.POOR_PASSES, count=2, hold_ms=60_000)
        guards.put(connection, database, 2, GuardName.POOR_PASSES, count=1)
        guards.put(connection, database, 1, GuardName.BATCH_FAILURES, count=3)
        guards.put(connection, database, 2, GuardName.BATCH_FAILURES, count=1)
    finding = check_sessions(database, settings)
    assert finding.status is Status.WARN
    assert finding.detail == (
        "2 sessions in cooldown after a failure, "
        "1 session locked after passes that hardly saved anything, "
        "1 session nearly full while summaries fail, 1 session exhausted"
    )
    assert "guards list --all-owners" in finding.advice
