"""One word for each outcome, and what follows from it."""

from __future__ import annotations

from storage.outcomes import CHANGED_VIEW, Outcome
from workers.runtime.commit import AUDITED


def test_every_change_of_a_view_is_audited_and_nothing_else_is() -> None:
    assert set(AUDITED) == CHANGED_VIEW


def test_of_the_passes_that_change_a_view_only_micro_ones_go_on() -> None:
    assert {one for one in CHANGED_VIEW if Outcome(one).goes_on} == {"absorbed", "defragmented"}


def test_failures_handing_back_and_having_nothing_to_do_end_a_run() -> None:
    ends = {one for one in Outcome if not one.goes_on}
    assert {Outcome.FAILED, Outcome.GAVE_UP, Outcome.HANDED_BACK, Outcome.NOTHING_DUE} <= ends


def test_only_what_is_absorbed_or_skipped_is_left_behind_the_cursor() -> None:
    assert {one for one in Outcome if one.moves_cursor} == {"absorbed", "skipped"}
