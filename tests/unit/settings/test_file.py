from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import afterturn
from workers.settings import (
    CompressionSettings,
    Settings,
    SettingsError,
    SettingsSource,
    load_settings,
)
from workers.settings.describe import describe_settings, nearest_key
from workers.settings.document import dotted, read_document

EXAMPLE = Path(afterturn.__file__).parent / "config.example.yaml"

KEY_RULE = "a key needs to be text, in quotes if it looks like anything else, and not empty"

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's directories, away from those of the account that runs the tests."""
    monkeypatch.setattr("platformdirs.user_config_path", lambda *_, **__: tmp_path / "config")
    monkeypatch.setattr("platformdirs.user_data_path", lambda *_, **__: tmp_path / "share")
    return tmp_path


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str) -> Path:
        path = tmp_path / "settings.yaml"
        # A name of its own first, so that even equal times and sizes are another file.
        fresh = tmp_path / "settings.new"
        fresh.write_text(text, encoding="utf-8")
        return fresh.replace(path)

    return write_file


def _problem(path: Path, environ: dict[str, str] | None = None) -> str:
    """Return the only problem of the file, as shown."""
    with pytest.raises(SettingsError) as caught:
        load_settings(path, environ or {})
    (problem,) = caught.value.problems
    return str(problem)


def test_the_example_shows_every_setting_at_its_default() -> None:
    assert load_settings(EXAMPLE, {}) == Settings()
    written = {dotted(path) for path in read_document(EXAMPLE.read_bytes()).lines}
    assert {row.key for row in describe_settings()} <= written


def test_every_key_of_the_example_stands_below_a_comment() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    document = read_document(EXAMPLE.read_bytes())
    for row in describe_settings():
        number = document.lines[tuple(row.key.split("."))]
        assert lines[number - 2].strip().startswith("# "), row.key


def test_the_example_says_beside_micro_compact_whom_it_suits_and_what_it_costs() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    _, _, beside = text.partition("--- micro-compaction")
    comment = beside.partition("\n  micro_compact: ")[0]
    for word in ("Suits", "Cost", "prompt cache", "small, fast model that does not reason"):
        assert word in comment


def test_without_any_file_the_defaults_hold() -> None:
    assert load_settings(environ={}) == Settings()


@pytest.mark.parametrize("text", ["", "# nothing\n", "compression:\n  # threshold: 0.6\nworker:\n"])
def test_a_file_that_says_nothing_means_the_defaults(write: Write, text: str) -> None:
    assert load_settings(write(text), {}) == Settings()


def test_the_users_own_file_is_read_when_none_is_named(home: Path) -> None:
    (home / "config").mkdir()
    (home / "config" / "config.yaml").write_text("worker: {concurrency: 3}")
    assert load_settings(environ={}).worker.concurrency == 3


def test_a_variable_names_the_file_and_an_argument_goes_before_it(
    write: Write, tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("worker: {concurrency: 4}")
    environ = {"AFTERTURN_CONFIG": str(other)}
    assert load_settings(environ=environ).worker.concurrency == 4
    assert load_settings(write("worker: {concurrency: 5}"), environ).worker.concurrency == 5


def test_a_named_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    for path, environ in (
        (tmp_path / "gone.yaml", {}),
        (None, {"AFTERTURN_CONFIG": str(tmp_path / "gone.yaml")}),
    ):
        with pytest.raises(SettingsError, match=r"gone\.yaml.*\n.*no such file"):
            load_settings(path, environ)


def test_a_directory_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    assert "cannot be read" in _problem(tmp_path)


def test_urls_of_the_environment_go_before_the_file(write: Write) -> None:
    path = write("database_url: sqlite:////a.db\nbroker_url: redis://a\n")
    environ = {"DATABASE_URL": "postgres://h/d", "BROKER_URL": "redis://b"}
    settings = load_settings(path, environ)
    assert settings.database_url == "postgresql+psycopg://h/d"
    assert settings.broker_url == "redis://b"


def test_empty_variables_count_as_not_set(write: Write) -> None:
    path = write("broker_url: redis://a\n")
    environ = {"DATABASE_URL": "", "BROKER_URL": "", "AFTERTURN_CONFIG": ""}
    assert load_settings(path, environ).broker_url == "redis://a"


@pytest.mark.parametrize("row", describe_settings(), ids=lambda row: row.key)
def test_no_variable_changes_any_other_setting(row: Any) -> None:
    leaf = row.key.rpartition(".")[2].upper()
    if leaf in {"DATABASE_URL", "BROKER_URL"}:
        leaf = f"X_{leaf}"
    names = {leaf, row.key.upper().replace(".", "_"), row.key.upper().replace(".", "__")}
    environ = {f"{prefix}{name}": "1" for name in names for prefix in ("AFTERTURN_", "X_")}
    environ |= dict.fromkeys(names - {"DATABASE_URL", "BROKER_URL"}, "1")
    assert load_settings(environ=environ) == Settings()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "compression:\n  threshold: 1.5\n",
            "line 2: compression.threshold: value not allowed (given: 1.5); "
            "allowed: number from 0.05 to 0.95",
        ),
        (
            "worker: {concurrency: '8'}",
            "line 1: worker.concurrency: value not allowed (given: '8'); "
            "allowed: integer from 1 to 256 jobs",
        ),
        (
            "worker: {concurrency: true}",
            "line 1: worker.concurrency: value not allowed (given: true); "
            "allowed: integer from 1 to 256 jobs",
        ),
        (
            "compression: {treshold: 0.5}",
            "line 1: compression.treshold: unknown key (given: 0.5); "
            "nearest known key: compression.threshold",
        ),
        (
            "compression: {model_thresholds: {gpt: 2}}",
            "line 1: compression.model_thresholds.gpt: value not allowed (given: 2); "
            "allowed: mapping from text to number from 0.05 to 0.95",
        ),
        (
            "compression: [1]",
            "line 1: compression: value not allowed (given: a list); allowed: block of settings",
        ),
        (
            "compression: {in_place: false}",
            "line 1: compression.in_place: going on in a new session is not available yet; leave "
            "the key out or set true (given: false); allowed: true (false is not available yet)",
        ),
        (
            "auxiliary:\n  compression:\n    model: a\n    fallback_chain:\n"
            "      - model: b\n        timeout: soon\n",
            "line 6: auxiliary.compression.fallback_chain[0].timeout: value not allowed "
            "(given: 'soon'); allowed: number from 0.1 to 3600 seconds",
        ),
        (
            "auxiliary: {compression: {provider: openai}}",
            "line 1: auxiliary.compression.model: provider is openai, so name one of its models "
            "(given: ''); allowed: text",
        ),
        ("1: 2", f"line 1: {KEY_RULE} (given: 1)"),
        (
            "compression: {model_thresholds: {4: 0.5}}",
            f"line 1: compression.model_thresholds: {KEY_RULE} (given: 4)",
        ),
        (
            "compression: {model_thresholds: {'': 0.5}}",
            f"line 1: compression.model_thresholds: {KEY_RULE} (given: '')",
        ),
        (
            "auxiliary:\n  compression:\n    model: m\n    extra_body:\n      a:\n"
            "      - day: 2020-01-01\n",
            "line 6: auxiliary.compression.extra_body.a[0].day: value not allowed (given: ***); "
            "allowed: mapping from text to JSON value",
        ),
        ("- a", "line 1: the file needs to hold keys, such as `compression:`"),
        ("'text'", "line 1: the file needs to hold keys, such as `compression:`"),
    ],
)
def test_a_problem_names_line_key_value_and_what_is_allowed(
    write: Write, text: str, shown: str
) -> None:
    assert _problem(write(text)) == shown


def test_all_problems_are_listed_at_once_in_the_order_of_the_file(write: Write) -> None:
    path = write(
        "worker:\n"
        "  concurrency: 0\n"
        "compression:\n"
        "  threshold: 0.5\n"
        "  threshold: 0.6\n"
        "  protect_last: 3\n"
        "  enabled: 1\n"
        "shedule: {}\n"
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(path, {"DATABASE_URL": "mysql://h/d"})
    assert [(problem.line, problem.key) for problem in caught.value.problems] == [
        (None, "DATABASE_URL (environment)"),
        (2, "worker.concurrency"),
        (5, "compression.threshold"),
        (6, "compression.protect_last"),
        (7, "compression.enabled"),
        (8, "shedule"),
    ]
    assert str(caught.value).startswith(f"6 problems in {path}:\n")


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        (("threshold",), "compression.threshold"),
        (("comprssion",), "compression"),
        (("compression", "microcompact"), "compression.micro_compact"),
        (("compression", "Threshold"), "compression.threshold"),
        (("compression", "base_url"), "auxiliary.compression.base_url"),
        (("compression", "lease_secs"), "worker.lease_seconds"),
        (("auxiliary", "compresion"), "auxiliary.compression"),
        (
            ("auxiliary", "compression", "fallback_chain", 1, "modle"),
            "auxiliary.compression.fallback_chain[1].model",
        ),
        (("worker", "zzzz"), "worker.stop_seconds"),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest_known_one(
    path: tuple[str | int, ...], nearest: str
) -> None:
    assert nearest_key(path) == nearest


@pytest.mark.parametrize(
    "text",
    [
        "database_url: mysql://u:hush@h/d",
        "database_url: hush@h/d",
        "broker_url: {password: hush}",
        "brokr_url: redis://:hush@h/0",
        "auxiliary: {compression: {api_key: hush}}",
        "auxiliary: {compression: {apiKey: hush}}",
        "auxiliary: {compression: {model: m, base_url: 'ftp://u:hush@h/v1?key=hush'}}",
        "auxiliary: {compression: {extra_body: {a: !!set {hush}, b: 2020-01-01}}",
        "openai: {api_key: hush}",
        "openai: sk-hush",
        "token: hush",
        "password: [hush]",
        "worker: 'hush",
    ],
)
def test_messages_never_show_a_secret(write: Write, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(text), {})
    shown = f"{caught.value}{caught.value.problems}"
    assert "hush" not in shown


def test_a_bad_url_of_the_environment_is_masked_and_named_by_its_variable(write: Write) -> None:
    shown = _problem(write("database_url: sqlite:////a.db"), {"DATABASE_URL": "x://u:hush@h/d"})
    assert shown.startswith("DATABASE_URL (environment): needs to start with sqlite:///")
    assert "'x://***@h/d'" in shown


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"a: 'open\n", "line 2: not YAML: found unexpected end of stream"),
        (b"a: b: c\n", "line 1: not YAML: mapping values are not allowed here"),
        (b"--- 1\n--- 2\n", "not YAML: but found another document"),
        (b"a: *nowhere\n", "not YAML: found undefined alias"),
        (b"? [a]\n: 1\n", "not YAML: found unhashable key"),
        (b"!!python/object:os.system x\n", "not YAML: could not determine a constructor"),
        (b"a: 2024-99-99\n", "not YAML: a value cannot be read"),
        (b"a: !!bool x\n", "not YAML: a value cannot be read"),
        (b"a: !!timestamp x\n", "not YAML: a value cannot be read"),
        (b"a: \x07\n", "not YAML: a value cannot be read"),
        (b"a: " + b"[" * 5000, "not YAML: a value cannot be read"),
        (b"a: \xff\n", "not UTF-8 at byte 3"),
    ],
)
def test_a_file_that_is_no_yaml_is_one_clear_error(tmp_path: Path, raw: bytes, words: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(raw)
    assert words in _problem(path)


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "marked.yaml"
    path.write_bytes("worker: {concurrency: 2}".encode("utf-8-sig"))
    assert load_settings(path, {}).worker.concurrency == 2


def test_a_key_that_stands_twice_is_reported_with_both_lines(write: Write) -> None:
    shown = _problem(write("worker:\n  concurrency: 2\n  concurrency: 3\n"))
    assert shown.startswith("line 3: worker.concurrency: the key stands in line 2 already")


def test_an_alias_may_share_a_block_and_override_a_key_of_it(write: Write) -> None:
    path = write(
        "auxiliary:\n"
        "  compression: &first {base_url: http://a/v1, model: a, timeout: 9, fallback_chain:\n"
        "    [{base_url: http://b/v1, model: b}]}\n"
        "worker: &w {concurrency: 2}\n"
        "schedule: {reconcile_seconds: 5}\n"
    )
    assert load_settings(path, {}).auxiliary.compression.fallback_chain[0].model == "b"
    merged = write("worker: &w {concurrency: 2}\nschedule: {<<: *w, reconcile_seconds: 5}\n")
    assert "schedule.concurrency: unknown key" in _problem(merged)


def test_a_bare_off_is_a_word_where_off_is_a_choice(write: Write) -> None:
    settings = load_settings(write("compression: {codex_app_server_auto: off}"), {})
    assert settings.compression.codex_app_server_auto == "off"


def test_a_fixed_source_always_gives_the_same_settings() -> None:
    settings = Settings(compression=CompressionSettings(protect_last_n=7))
    source = SettingsSource.fixed(settings)
    assert source.current() is settings
    assert source.current() is settings


def test_a_source_follows_changes_of_the_two_blocks(write: Write) -> None:
    path = write("compression: {protect_last_n: 7}")
    source = SettingsSource.following(path, {})
    before = source.current()
    assert source.current() is before
    write(
        "compression: {protect_last_n: 9}\n"
        "auxiliary: {compression: {base_url: http://a/v1, model: a}}\n"
    )
    assert before.compression.protect_last_n == 7
    assert source.current().compression.protect_last_n == 9
    assert source.current().auxiliary.compression.model == "a"


def test_a_change_in_place_is_noticed_by_its_time(write: Write) -> None:
    path = write("compression: {protect_last_n: 7}")
    source = SettingsSource.following(path, {})
    path.write_text("compression: {protect_last_n: 8}")
    os.utime(path, ns=(1, 1))
    assert source.current().compression.protect_last_n == 8


def test_other_blocks_stay_as_they_were_at_the_start_and_the_log_says_so(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    source = SettingsSource.following(write("worker: {concurrency: 2}"), {})
    write("worker: {concurrency: 3}\ndatabase_url: sqlite:////b.db\n")
    assert source.current().worker.concurrency == 2
    assert source.current().database_url == Settings().database_url
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [text.partition(" ")[0] for text in warnings] == ["database_url", "worker"]


def test_urls_of_the_environment_still_go_before_the_file_when_it_is_read_again(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"DATABASE_URL": "sqlite:////a.db"}
    source = SettingsSource.following(write(""), environ)
    write("database_url: sqlite:////b.db\ncompression: {protect_last_n: 9}\n")
    assert source.current().database_url == "sqlite:////a.db"
    assert source.current().compression.protect_last_n == 9
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("broken", ["compression: {threshold: 7}", "compression: ["])
def test_a_broken_file_keeps_the_last_good_settings_and_is_reported_once_per_change(
    write: Write, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    source = SettingsSource.following(write("compression: {protect_last_n: 7}"), {})
    for breaks in (1, 2):
        write(broken)
        for _ in range(3):
            assert source.current().compression.protect_last_n == 7
        assert caplog.text.count("last good settings hold") == breaks
    write("compression: {protect_last_n: 8}")
    assert source.current().compression.protect_last_n == 8


def test_a_file_that_disappears_keeps_the_last_good_settings(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    path = write("compression: {protect_last_n: 7}")
    source = SettingsSource.following(path, {})
    path.unlink()
    assert source.current().compression.protect_last_n == 7
    assert source.current().compression.protect_last_n == 7
    assert caplog.text.count("no such file") == 1


def test_a_file_that_appears_later_is_noticed(home: Path) -> None:
    source = SettingsSource.following(environ={})
    assert source.current() == Settings()
    (home / "config").mkdir()
    (home / "config" / "config.yaml").write_text("compression: {protect_last_n: 7}")
    assert source.current().compression.protect_last_n == 7


def test_many_threads_see_one_change_and_one_warning(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    source = SettingsSource.following(write("compression: {protect_last_n: 7}"), {})
    write("compression: {protect_last_n: 0}")
    with ThreadPoolExecutor(16) as threads:
        seen = list(threads.map(lambda _: source.current(), range(200)))
    assert {settings.compression.protect_last_n for settings in seen} == {7}
    assert caplog.text.count("last good settings hold") == 1
