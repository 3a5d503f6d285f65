"""Bulk runs as people and programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from afterturn.compaction.estimate import Estimate
from afterturn.render.console import Output
from afterturn.render.fields import (
    ID,
    MOMENT,
    NUMBER,
    SERIAL,
    Field,
    Fields,
    document,
    documents,
    for_people,
    for_programs,
    lines,
    show_table,
    within,
)
from afterturn.render.terms import outcome_name
from afterturn.render.words import NONE, count, duration, moment, number, share
from storage.bulk_runs import Filters, Run, RunState, Tally


def money(amount: float | None, currency: str) -> str:
    """Return an amount of money, or that it is not known."""
    if amount is None:
        return "unknown, as block prices does not name the model"
    digits = 2 if abs(amount) >= 1 or amount == 0 else 4
    return f"{amount:,.{digits}f} {currency}"


def filter_words(filters: Filters, owner: str | None) -> str:
    """Return which sessions a run is for, in words."""
    words = ["sessions of every owner" if owner is None else f"sessions of {owner}"]
    if filters.sources:
        words.append(f"from {', '.join(filters.sources)}")
    if filters.older_ms is not None:
        words.append(f"idle for {duration(filters.older_ms)}")
    if filters.above_tokens:
        words.append(f"with {number(filters.above_tokens)} live tokens or more")
    if filters.title is not None:
        words.append(f"with {filters.title!r} in the title")
    return ", ".join(words)


Planned: TypeAlias = tuple[Estimate, Filters, str | None]
"""An estimate with the filters and the owner that it is for."""

_ESTIMATE: Fields[Estimate] = (
    for_people(
        "sessions",
        lambda one: (
            f"{number(one.matched)}, {number(one.live_tokens)} live tokens; "
            f"{_about(one)}{number(one.to_compact)} of them can be made smaller"
        ),
    ),
    for_people("summariser", lambda one: one.model),
    for_people("requests", lambda one: f"{_about(one)}{number(one.requests)}"),
    for_people(
        "their tokens",
        lambda one: f"~{number(one.prompt_tokens)} sent, ~{number(one.answer_tokens)} answered",
    ),
    for_people("cost", lambda one: money(one.money, one.currency)),
    for_people(
        "saving",
        lambda one: (
            f"~{number(one.tokens_saved)} tokens, "
            f"{share(one.tokens_saved / one.live_tokens) if one.live_tokens else NONE} of them"
        ),
    ),
    *for_programs(*Estimate.__dataclass_fields__, "sampled"),
)

ESTIMATE: Fields[Planned] = (
    Field("owner", None, lambda one: one[2]),
    Field(
        "filters", "meant", lambda one: _filters(one[1]), text=lambda one: filter_words(*one[1:])
    ),
    *within(lambda one: one[0], _ESTIMATE),
)


def _about(report: Estimate) -> str:
    return "~" if report.sampled else ""


def show_estimate(output: Output, planned: Planned) -> None:
    """Print what a run would take."""
    output.show(lines(ESTIMATE, planned))
    if planned[0].sampled:
        text = f"Estimated from {number(planned[0].looked_at)} of them, evenly spread over all."
        output.write(text, style="dim")


@dataclass(frozen=True, slots=True)
class Missed:
    """A session of a run that was not made smaller."""

    owner: str
    session: str
    outcome: str
    error_class: str | None


MISSED: Fields[Missed] = (
    Field("owner", "owner", lambda one: one.owner, ID),
    Field("session", "session", lambda one: one.session, ID),
    Field(
        "outcome",
        "outcome",
        lambda one: one.outcome,
        text=lambda one: (
            outcome_name(one.outcome) + (f" ({one.error_class})" if one.error_class else "")
        ),
    ),
    Field("error_class", None, lambda one: one.error_class),
)


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as it is now. `missed` are some of the sessions that were not made smaller, `cost` is
    None if the price of the model is not known."""

    run: Run
    tally: Tally
    missed: Sequence[Missed] = ()
    cost: float | None = None
    currency: str = ""

    @property
    def outcomes(self) -> str:
        """The sessions by outcome, one line for each."""
        found = self.tally.outcomes.items()
        return "\n".join(f"{number(many)} {outcome_name(outcome)}" for outcome, many in found)

    @property
    def took(self) -> str:
        """How long a run took that is done, else nothing."""
        if self.run.state is not RunState.DONE or self.run.ended_at is None:
            return ""
        ms = self.run.ended_at - self.run.created_at
        rate = self.tally.settled / max(ms / 60_000, 1 / 60)
        return f"{duration(ms)}, {rate:,.1f} sessions a minute"


RUN_LISTED: Fields[tuple[Run, Tally]] = (
    Field("run", "run", lambda one: one[0].id, SERIAL),
    Field("state", "state", lambda one: one[0].state.value),
    Field("created_at", "begun", lambda one: one[0].created_at, MOMENT, priority=1),
    Field("ended_at", None, lambda one: one[0].ended_at, MOMENT),
    Field("sessions", "sessions", lambda one: one[0].sessions, NUMBER),
    Field("settled", "settled", lambda one: one[1].settled, NUMBER),
    Field("tokens_saved", "saved", lambda one: one[1].tokens_saved, NUMBER),
    Field("filters", "meant", lambda one: _filters(one[0].filters),
          text=lambda one: filter_words(one[0].filters, one[0].owner), priority=2),
    *within(lambda one: one[0], for_programs("owner", "actor", "at_once", "pace_ms")),
    Field("under_way", None, lambda one: one[1].asked),
    Field("waiting", None, lambda one: one[1].waiting),
    Field("outcomes", None, lambda one: dict(one[1].outcomes)),
    *within(lambda one: one[1], for_programs("tokens_before", "tokens_after", "requests")),
    *within(lambda one: one[1], for_programs("prompt_tokens", "completion_tokens")),
)  # fmt: skip

_RUN: Fields[RunReport] = (
    for_people("run", lambda one: f"{one.run.id}, {one.run.state.value}; "
               f"{filter_words(one.run.filters, one.run.owner)}"),
    for_people("begun", lambda one: f"{moment(one.run.created_at)} by {one.run.actor}"),
    for_people("ended", lambda one: moment(one.run.ended_at)
               if one.run.state is RunState.DONE else ""),
    for_people("sessions", lambda one: f"{number(one.run.sessions)}: "
               f"{number(one.tally.settled)} settled, {number(one.tally.asked)} under way, "
               f"{number(one.tally.waiting)} waiting"),
    for_people("outcomes", lambda one: one.outcomes),
    for_people("live tokens", lambda one: f"{number(one.tally.tokens_before)} → "
               f"{number(one.tally.tokens_after)}, {number(one.tally.tokens_saved)} saved"),
    for_people("requests", lambda one: f"{number(one.tally.requests)}: "
               f"{number(one.tally.prompt_tokens)} tokens sent, "
               f"{number(one.tally.completion_tokens)} answered"),
    Field("cost", "cost", lambda one: one.cost, text=lambda one: money(one.cost, one.currency)),
    Field("currency", None, lambda one: one.currency),
    for_people("took", lambda one: one.took),
    Field("unsuccessful", None, lambda one: documents(MISSED, one.missed)),
)  # fmt: skip


def run_document(report: RunReport) -> dict[str, Any]:
    """Return a run for programs."""
    return {**document(RUN_LISTED, (report.run, report.tally)), **document(_RUN, report)}


def show_run(output: Output, report: RunReport) -> None:
    """Print the state of a run and its results so far."""
    output.show(lines(_RUN, report))
    if report.missed:
        output.show("")
        show_table(output, MISSED, report.missed, title="Not made smaller")
    if report.tally.waiting + report.tally.asked and report.run.state is RunState.STOPPED:
        output.write(f"`afterturn recompact resume {report.run.id}` goes on.")


def state_sentence(run: Run, tally: Tally) -> str:
    """Return one line on a run."""
    return (
        f"Run {run.id} is {run.state.value}: {count(tally.settled, 'session')} settled, "
        f"{number(tally.tokens_saved)} tokens saved."
    )


def _filters(filters: Filters) -> dict[str, Any]:
    return {**asdict(filters), "sources": list(filters.sources)}
