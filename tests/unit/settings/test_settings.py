from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kombu.transport import TRANSPORT_ALIASES
from pydantic import ValidationError
from sqlalchemy import make_url

from workers.settings import (
    CompressionSettings,
    Endpoint,
    EndpointError,
    RetentionSettings,
    ScheduleSettings,
    Settings,
    SummariserSettings,
    WorkerSettings,
    resolve_chain,
    resolve_endpoint,
)
from workers.settings.describe import SettingRow, as_markdown, describe_settings
from workers.settings.urls import BROKER_SCHEMES, masked_url

OPENAI = {"OPENAI_API_KEY": "sk-first"}
OPENROUTER = {"OPENROUTER_API_KEY": "sk-second"}

COMPRESSION_DEFAULTS: dict[str, object] = {
    "enabled": True,
    "progress_notices": False,
    "threshold": 0.50,
    "threshold_tokens": None,
    "model_thresholds": {},
    "target_ratio": 0.20,
    "protect_first_n": 3,
    "protect_last_n": 20,
    "min_tail_user_messages": 1,
    "max_attempts": 3,
    "summary_attempts": 3,
    "exhausted_after": 3,
    "in_place": True,
    "abort_on_summary_failure": False,
    "verbatim_user_tokens": 2000,
    "micro_compact": True,
    "micro_compact_every_n_turns": 1,
    "micro_compact_min_tokens": 1000,
    "micro_compact_defrag_threshold_tokens": 2000,
    "proactive_prune_tokens": 0,
    "proactive_prune_min_result_chars": 8000,
    "proactive_prune_min_reclaim_tokens": 4096,
    "proactive_prune_exempt_tools": ("skill*", "memory*", "todo*", "clarify*"),
    "proactive_prune_tool_forms": {},
    "idle_compact_after_seconds": 0,
    "hygiene_hard_message_limit": 5000,
    "hygiene_timeout_seconds": 30,
    "hygiene_total_ceiling_seconds": 600,
    "hygiene_failure_cooldown_seconds": 300,
    "failure_cooldown_seconds": 600,
    "codex_app_server_auto": "native",
    "codex_responses_native": False,
    "codex_responses_compact_threshold": None,
    "context_timeout_seconds": 120,
    "context_total_ceiling_seconds": 600,
}


def _rows() -> dict[str, SettingRow]:
    return {row.key: row for row in describe_settings()}


def _compression(**given: Any) -> CompressionSettings:
    return CompressionSettings(**given)


def _summariser(**given: Any) -> SummariserSettings:
    return SummariserSettings.model_validate(given)


def test_compression_has_exactly_the_keys_and_defaults_of_the_specification() -> None:
    assert CompressionSettings().model_dump() == COMPRESSION_DEFAULTS


def test_the_summariser_is_local_by_default_and_waits_300_seconds_for_the_first_byte() -> None:
    settings = Settings().auxiliary.compression
    assert settings.model_dump() == {
        "provider": "auto",
        "base_url": None,
        "model": "",
        "timeout": 300,
        "extra_body": {},
        "context_length": None,
        "requests_per_minute": None,
        "tokens_per_minute": None,
        "fallback_chain": (),
    }
    assert resolve_endpoint(settings, {}) is None


def test_workers_and_schedule_have_their_defaults() -> None:
    assert WorkerSettings().model_dump() == {
        "concurrency": 8,
        "bulk_at_once": 2,
        "lease_seconds": 60,
        "stop_seconds": 600.0,
        "poll_seconds": 0.5,
    }
    assert ScheduleSettings().model_dump() == {
        "reconcile_seconds": 10,
        "orphans_seconds": 60,
        "idle_seconds": 60,
        "retention_seconds": 3600,
        "database_seconds": 3600,
        "search_seconds": 10,
    }
    assert RetentionSettings().model_dump() == {
        "jobs_days": 7,
        "attempts_days": 90,
        "signals_days": 30,
        "answers_days": 1,
        "events_days": 365,
        "audit_days": 0,
    }


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().compression.threshold = 0.9  # type: ignore[misc]  # what the test is about


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("protect_last_n", "5"),
        ("protect_last_n", 5.0),
        ("protect_last_n", True),
        ("threshold", "0.5"),
        ("threshold", True),
        ("threshold", float("nan")),
        ("context_timeout_seconds", float("inf")),
        ("enabled", 1),
        ("enabled", "yes"),
        ("model_thresholds", {"gpt": "0.5"}),
        ("model_thresholds", {"gpt": True}),
        ("model_thresholds", {5: 0.5}),
        ("model_thresholds", {"": 0.5}),
        ("model_thresholds", [0.5]),
        ("codex_app_server_auto", True),
        ("codex_app_server_auto", "maybe"),
        ("threshold", None),
    ],
)
def test_a_value_of_another_type_is_refused_and_never_converted(key: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        _compression(**{key: value})
    assert caught.value.errors()[0]["loc"][0] == key


def test_a_whole_number_serves_where_a_number_is_asked() -> None:
    assert _compression(context_timeout_seconds=7).context_timeout_seconds == 7.0


@pytest.mark.parametrize(
    ("key", "low", "high", "step"),
    [
        ("threshold", 0.05, 0.95, 0.001),
        ("target_ratio", 0.05, 0.80, 0.001),
        ("threshold_tokens", 1000, 10_000_000, 1),
        ("protect_first_n", 0, 100, 1),
        ("protect_last_n", 1, 1000, 1),
        ("min_tail_user_messages", 1, 100, 1),
        ("max_attempts", 1, 10, 1),
        ("summary_attempts", 1, 10, 1),
        ("exhausted_after", 1, 100, 1),
        ("verbatim_user_tokens", 0, 50_000, 1),
        ("micro_compact_min_tokens", 0, 1_000_000, 1),
        ("micro_compact_defrag_threshold_tokens", 1, 1_000_000, 1),
        ("hygiene_hard_message_limit", 10, 1_000_000, 1),
        ("failure_cooldown_seconds", 0, 86_400, 0.1),
        ("context_timeout_seconds", 0.1, 3600, 0.01),
        ("context_total_ceiling_seconds", 0.1, 86_400, 0.01),
        ("codex_responses_compact_threshold", 1000, 10_000_000, 1),
    ],
)
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(
    key: str, low: float, high: float, step: float
) -> None:
    for value in (low, high):
        assert getattr(_compression(**{key: value}), key) == value
    for value in (low - step, high + step):
        with pytest.raises(ValidationError):
            _compression(**{key: value})


@pytest.mark.parametrize(("given", "meant"), [(-3, 1), (0, 1), (1, 1), (2, 2)])
def test_fewer_turns_than_one_count_as_one(given: int, meant: int) -> None:
    assert _compression(micro_compact_every_n_turns=given).micro_compact_every_n_turns == meant


def test_going_on_in_a_new_session_is_refused_as_not_available_yet() -> None:
    with pytest.raises(ValidationError, match="not available yet"):
        _compression(in_place=False)


def test_the_bare_word_off_of_yaml_is_understood() -> None:
    assert _compression(codex_app_server_auto=False).codex_app_server_auto == "off"


def test_an_empty_block_or_collection_means_its_default() -> None:
    nothing = {"compression": None, "auxiliary": {"compression": None}, "worker": None}
    assert Settings.model_validate(nothing) == Settings()
    assert _compression(model_thresholds=None) == CompressionSettings()
    assert _summariser(fallback_chain=None, extra_body=None) == SummariserSettings()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_usual_postgresql_url_gets_the_driver_that_is_installed(scheme: str) -> None:
    url = Settings(database_url=f"{scheme}://me:p%40ss@db:5433/turns?sslmode=require").database_url
    assert url == "postgresql+psycopg://me:p%40ss@db:5433/turns?sslmode=require"
    assert make_url(url).get_dialect().driver == "psycopg"


def test_a_sqlite_url_stays_as_it_is() -> None:
    url = "sqlite:////var/lib/afterturn/my db.db"
    assert Settings(database_url=url).database_url == url


def test_the_default_database_is_a_file_in_the_users_data_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("platformdirs.user_data_path", lambda *_, **__: tmp_path / "a?b#c%20")
    assert make_url(Settings().database_url).database == str(tmp_path / "a?b#c%20/afterturn.db")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "afterturn.db",
        "mysql://u:secret@h/d",
        "postgresql+psycopg2://u:secret@h/d",
        "postgresql://u:secret@h:port/d",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
    ],
)
def test_other_databases_and_those_in_memory_are_refused_without_repeating_the_url(
    url: str,
) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(database_url=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "localhost:6379", "://x"])
def test_a_broker_needs_a_url(url: str) -> None:
    with pytest.raises(ValidationError, match="redis://"):
        Settings(broker_url=url)


def test_every_broker_scheme_is_one_that_celery_knows_and_none_is_left_out() -> None:
    assert set(BROKER_SCHEMES) == {name.lower() for name in TRANSPORT_ALIASES}


@pytest.mark.parametrize(
    "url",
    [
        "redis://h", "redis://:p%40x@h:6379/0", "rediss://h:1/0?ssl_cert_reqs=none",
        "redis+socket:///tmp/redis.sock", "amqp://u:p@[::1]:5672//", "SQS://key:secret@",
        "sentinel://a:26379;sentinel://b:26379", "sqla+sqlite:///x.db", "memory://localhost",
        "mongodb://a:1,b:2/x",
    ],
)  # fmt: skip
def test_brokers_that_celery_takes_are_taken(url: str) -> None:
    assert Settings(broker_url=url).broker_url == url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("rubbish://:hush@h", "'rubbish' is no transport"),
        ("SQLA+sqlite:///hush", "'SQLA.sqlite' is no transport"),
        ("redis://:hush@h:notaport/0", "port"),
        ("redis://:hush@h:0/0", "port"),
        ("redis://h:6379/0;amqp://u:hush@h:99999//", "port"),
        ("redis://:hush/x@h:6379/0", "%XX"),
    ],
)
def test_unknown_schemes_and_unreadable_ports_of_brokers_are_refused(
    url: str, expected: str
) -> None:
    with pytest.raises(ValidationError, match=expected) as caught:
        Settings(broker_url=url)
    assert "hush" not in str(caught.value)


def test_settings_and_endpoints_show_no_secret_when_printed() -> None:
    settings = Settings.model_validate(
        {
            "database_url": "postgresql://u:hush1@h/d",
            "broker_url": "redis://:hush2@h/0",
            "auxiliary": {
                "compression": {
                    "base_url": "https://u:hush3@h/v1",
                    "model": "m",
                    "extra_body": {"user": "hush4"},
                }
            },
        }
    )
    endpoint = resolve_endpoint(settings.auxiliary.compression, {"OPENAI_API_KEY": "hush5"})
    assert endpoint is not None
    assert "hush" not in f"{settings!r}{settings}{endpoint!r}{endpoint}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:pa/s@s@h:1/0", "redis://***@h:1/0"),
        ("postgresql://u:p@h/d?sslpassword=x", "postgresql://***@h/d?***"),
        ("amqp://u:p@one//;amqp://u:q@two//", "amqp://***@one//;amqp://***@two//"),
    ],
)
def test_a_masked_url_keeps_host_and_path_only(url: str, shown: str) -> None:
    assert masked_url(url) == shown


def test_a_url_serves_with_the_openai_key_and_without_any() -> None:
    settings = _summariser(base_url="http://localhost:8080/v1", model="m")
    assert resolve_endpoint(settings, {}) == Endpoint("custom", "m", "http://localhost:8080/v1")
    endpoint = resolve_endpoint(settings, OPENAI | OPENROUTER)
    assert endpoint is not None
    assert endpoint.api_key is not None
    assert endpoint.api_key.get_secret_value() == "sk-first"


@pytest.mark.parametrize(
    ("provider", "base_url", "key"),
    [
        ("auto", "https://openrouter.ai/api/v1", "sk-second"),
        ("auto", "https://notopenrouter.ai/v1", "sk-first"),
        ("openrouter", "https://mirror.example/v1", "sk-second"),
        ("openai", "https://mirror.example/v1", "sk-first"),
        ("local", "http://localhost:8080/v1", None),
    ],
)
def test_a_url_goes_before_the_provider_which_only_chooses_the_key(
    provider: str, base_url: str, key: str | None
) -> None:
    settings = _summariser(provider=provider, base_url=base_url, model="m")
    endpoint = resolve_endpoint(settings, OPENAI | OPENROUTER)
    assert endpoint is not None
    assert endpoint.base_url == base_url
    assert (endpoint.api_key.get_secret_value() if endpoint.api_key else None) == key


@pytest.mark.parametrize(
    ("model", "secrets", "provider"),
    [
        ("m", OPENAI, "openai"),
        ("vendor/m", OPENAI, "openai"),
        ("m", OPENROUTER, "openrouter"),
        ("m", OPENAI | OPENROUTER, "openai"),
        ("vendor/m", OPENAI | OPENROUTER, "openrouter"),
    ],
)
def test_auto_takes_the_provider_whose_key_is_there(
    model: str, secrets: dict[str, str], provider: str
) -> None:
    endpoint = resolve_endpoint(_summariser(model=model), secrets)
    assert endpoint is not None
    assert endpoint.provider == provider
    assert endpoint.base_url.startswith("https://")


@pytest.mark.parametrize("secrets", [{}, {"OPENAI_API_KEY": " \n"}])
def test_auto_without_url_and_key_is_local(secrets: dict[str, str]) -> None:
    assert resolve_endpoint(_summariser(model="m"), secrets) is None


def test_without_a_model_a_key_alone_changes_nothing() -> None:
    assert resolve_endpoint(SummariserSettings(), OPENAI | OPENROUTER) is None


def test_local_is_local_even_with_model_and_key() -> None:
    assert resolve_endpoint(_summariser(provider="local", model="m"), OPENAI) is None


def test_an_endpoint_carries_what_was_configured_and_the_key_without_line_break() -> None:
    settings = _summariser(
        provider="openai", model=" m ", timeout=5, extra_body={"a": [1]}, context_length=8192
    )
    endpoint = resolve_endpoint(settings, {"OPENAI_API_KEY": "sk-first\n"})
    assert endpoint is not None
    assert (endpoint.model, endpoint.timeout, endpoint.context_length) == ("m", 5.0, 8192)
    assert endpoint.extra_body == {"a": [1]}
    assert endpoint.api_key is not None
    assert endpoint.api_key.get_secret_value() == "sk-first"


def test_a_provider_without_its_key_is_an_error_that_names_the_variable() -> None:
    settings = _summariser(provider="openrouter", model="m")
    with pytest.raises(EndpointError, match="OPENROUTER_API_KEY") as caught:
        resolve_endpoint(settings, OPENAI)
    assert caught.value.problems[0].key == "auxiliary.compression.provider"


@pytest.mark.parametrize(
    "given",
    [
        {"provider": "openai"},
        {"provider": "openrouter", "model": "  "},
        {"base_url": "http://localhost:8080/v1"},
        {"model": "m", "fallback_chain": [{}]},
        {"model": "m", "fallback_chain": [{"provider": "openai"}]},
    ],
)
def test_an_endpoint_without_a_model_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        _summariser(**given)
    assert caught.value.errors()[0]["loc"][-1] == "model"


def test_fallbacks_without_a_first_model_are_refused() -> None:
    with pytest.raises(ValidationError, match="name a model"):
        _summariser(fallback_chain=[{"model": "m"}])


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "ftp://h/v1", "http://", "http://[::1/v1", "http://h:x/", "http://a b"],
)
def test_an_endpoint_url_that_cannot_be_asked_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        _summariser(base_url=url, model="m")


def test_an_empty_endpoint_url_counts_as_none() -> None:
    assert _summariser(base_url="").base_url is None


def test_the_chain_asks_the_fallbacks_in_order_and_ends_at_the_local_summariser() -> None:
    settings = _summariser(
        provider="openai",
        model="a",
        fallback_chain=[
            {"provider": "openrouter", "model": "b"},
            {"provider": "local"},
            {"base_url": "http://localhost/v1", "model": "c"},
        ],
    )
    chain = resolve_chain(settings, OPENAI | OPENROUTER)
    assert [endpoint.model if endpoint else None for endpoint in chain] == ["a", "b", None]


def test_a_fallback_without_its_key_is_named_by_its_place() -> None:
    settings = _summariser(
        provider="openai", model="a", fallback_chain=[{"provider": "openrouter", "model": "b"}]
    )
    with pytest.raises(EndpointError, match=r"fallback_chain\[0\]\.provider"):
        resolve_chain(settings, OPENAI)


def test_every_setting_is_described_with_allowed_values_default_and_meaning() -> None:
    rows = describe_settings()
    assert {f"compression.{key}" for key in COMPRESSION_DEFAULTS} <= {row.key for row in rows}
    assert len({row.key for row in rows}) == len(rows)
    for row in rows:
        assert row.allowed, row
        assert row.default, row
        assert row.meaning.endswith("."), row


@pytest.mark.parametrize(
    ("key", "allowed", "default"),
    [
        ("compression.threshold", "number from 0.05 to 0.95", "0.5"),
        (
            "compression.threshold_tokens",
            "integer from 1000 to 10000000 tokens, or null",
            "null",
        ),
        ("compression.enabled", "true or false", "true"),
        (
            "compression.model_thresholds",
            "mapping from text to number from 0.05 to 0.95",
            "{}",
        ),
        ("compression.codex_app_server_auto", "one of native, hermes, off", "native"),
        ("compression.failure_cooldown_seconds", "number from 0 to 86400 seconds", "600"),
        ("auxiliary.compression.model", "text", '""'),
        ("worker.concurrency", "integer from 1 to 256 jobs", "8"),
        (
            "database_url",
            "sqlite:///FILE or postgresql:// URL",
            "SQLite file afterturn.db in the user's data directory",
        ),
    ],
)
def test_rows_say_in_words_what_the_models_check(key: str, allowed: str, default: str) -> None:
    row = _rows()[key]
    assert (row.allowed, row.default) == (allowed, default)


def test_the_markdown_table_has_a_line_for_every_setting() -> None:
    rows = describe_settings()
    lines = as_markdown(rows).splitlines()
    assert len(lines) == len(rows) + 2
    assert all(line.count("|") == 5 for line in lines)
