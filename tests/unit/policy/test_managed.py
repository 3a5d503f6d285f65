"""Who compacts a session instead of us."""

from __future__ import annotations

import pytest

from tests.support.sessions.session_records import session_record
from workers.policy.threshold import ManagedBy, managed_by, openai_compacts
from workers.settings import CompressionSettings

NATIVE = CompressionSettings(codex_responses_native=True)
NOT_NATIVE = CompressionSettings()


def test_usually_nobody_else_does() -> None:
    assert managed_by(session_record(model="gpt-5.6"), NATIVE) is None


@pytest.mark.parametrize("settings", [NATIVE, NOT_NATIVE])
def test_a_codex_app_server_keeps_its_thread_whatever_the_model(
    settings: CompressionSettings,
) -> None:
    session = session_record(managed_by="codex", model="gpt-5.6")
    assert managed_by(session, settings) is ManagedBy.CODEX


@pytest.mark.parametrize(
    ("model", "settings", "by"),
    [
        ("gpt-5.6", NATIVE, ManagedBy.OPENAI),
        ("gpt-5.6", NOT_NATIVE, None),
        ("another", NATIVE, None),
    ],
)
def test_openai_does_only_where_it_is_configured_and_the_model_has_it(
    model: str, settings: CompressionSettings, by: ManagedBy | None
) -> None:
    assert managed_by(session_record(managed_by="openai", model=model), settings) is by
    assert openai_compacts(model, settings) is (by is not None)


def test_a_word_of_a_newer_version_is_nobody() -> None:
    assert managed_by(session_record(managed_by="someone", model="gpt-5.6"), NATIVE) is None
