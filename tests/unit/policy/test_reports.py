"""A report counts where it is of a view that we know, and triggers while that is the present."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storage.conversations.events import Report
from tests.support.sessions.session_records import session_record
from workers.policy.calibration import Calibration, counted_prompt, current_prompt, recalibrated
from workers.settings import CompressionSettings

SETTINGS = CompressionSettings()
KNOWN = Calibration().updated(20_000, 30_000, window=200_000).dump()


def report(*, revision: int = 7, view_tokens: int | None = 20_000, **usage: Any) -> Report:
    return Report(1, json.dumps({"prompt_tokens": 31_000, **usage}), revision, view_tokens)


@pytest.mark.parametrize(
    ("revision", "counted"), [(None, 31_000), (7, 31_000), (6, None), (8, None), ("7", None)]
)
def test_a_report_of_another_view_than_the_stored_one_counts_nothing(
    revision: Any, counted: int | None
) -> None:
    usage = json.dumps({"prompt_tokens": 31_000, "revision": revision})
    assert counted_prompt(Report(1, usage, 7, 20_000)) == counted


@pytest.mark.parametrize(
    "usage", ["", "{}", "[]", "3", "nonsense", '{"prompt_tokens": null}', '{"prompt_tokens": "9"}']
)
def test_a_report_without_a_prompt_counts_nothing(usage: str) -> None:
    assert counted_prompt(Report(1, usage, 7, 20_000)) is None


def test_a_thinking_models_output_is_no_part_of_the_prompt() -> None:
    assert counted_prompt(report(completion_tokens=90_000)) == 31_000


@pytest.mark.parametrize(("revision", "triggers"), [(6, False), (7, True), (8, False)])
def test_a_report_triggers_only_while_its_view_is_the_present_one(
    revision: int, triggers: bool
) -> None:
    session = session_record(revision=7)
    assert (current_prompt(report(revision=revision), session) is not None) is triggers


def test_the_first_report_calibrates() -> None:
    learned = recalibrated(report(), session_record(), SETTINGS)
    assert learned is not None
    assert (learned.additive, learned.ratio) == (11_000, 1.0)


def test_a_later_one_goes_on_from_what_is_known() -> None:
    learned = recalibrated(report(), session_record(calibration=KNOWN), SETTINGS)
    assert learned is not None
    assert learned.samples == 2


def test_a_view_that_was_compacted_since_still_calibrates_what_was_begun() -> None:
    old = report(revision=6)
    assert recalibrated(old, session_record(calibration=KNOWN), SETTINGS) is not None


def test_what_was_counted_before_a_change_of_model_never_begins_a_calibration() -> None:
    assert recalibrated(report(revision=6), session_record(), SETTINGS) is None


@pytest.mark.parametrize(
    "report",
    [
        report(revision=7, prompt_tokens=0),
        report(prompt_tokens=None),
        report(view_tokens=None),
        Report(1, json.dumps({"prompt_tokens": 31_000, "revision": 6}), 7, 20_000),
    ],
)
def test_a_useless_report_changes_nothing(report: Report) -> None:
    assert recalibrated(report, session_record(), SETTINGS) is None
    assert recalibrated(report, session_record(calibration=KNOWN), SETTINGS) is None


def test_where_somebody_else_compacts_nothing_is_learned() -> None:
    assert recalibrated(report(), session_record(managed_by="codex"), SETTINGS) is None


def test_the_additive_part_is_limited_by_the_window() -> None:
    huge = report(view_tokens=300_000, prompt_tokens=600_000)
    learned = recalibrated(huge, session_record(), SETTINGS)
    assert learned is not None
    assert learned.additive == 200_000
