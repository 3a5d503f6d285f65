"""Runs of bulk re-compaction as people and programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from afterturn.bulk.estimate import Estimate
from afterturn.console import Output
from afterturn.terms import outcome_name
from afterturn.words import (
    NONE,
    cell,
    columns,
    count,
    duration,
    facts,
    moment,
    moment_utc,
    number,
    share,
)
from storage.bulk_runs import Filters, Run, RunState, Tally

Unsuccessful = Sequence[tuple[str, str, str, str | None]]


def money(amount: float | None, currency: str) -> str:
    """An amount of money, or that it is not known (faults F275)."""
    if amount is None:
        return "unknown, as block prices does not name the model"
    digits = 2 if abs(amount) >= 1 or amount == 0 else 4
    return f"{amount:,.{digits}f} {currency}"


def filter_words(filters: Filters, owner: str | None) -> str:
    """Whom a run is for, in words."""
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


def show_estimate(output: Output, seen: Estimate, filters: Filters, owner: str | None) -> None:
    """Print what a run would take."""
    about = "~" if seen.sampled else ""
    spared = share(seen.tokens_saved / seen.live_tokens) if seen.live_tokens else NONE
    output.show(
        facts(
            [
                ("meant", filter_words(filters, owner)),
                (
                    "sessions",
                    f"{number(seen.matched)}, {number(seen.live_tokens)} live tokens; "
                    f"{about}{number(seen.to_compact)} of them can be made smaller",
                ),
                ("summariser", seen.model),
                ("requests", f"{about}{number(seen.requests)}"),
                (
                    "their tokens",
                    f"~{number(seen.prompt_tokens)} sent, ~{number(seen.answer_tokens)} answered",
                ),
                ("cost", money(seen.money, seen.currency)),
                ("saving", f"~{number(seen.tokens_saved)} tokens, {spared} of what is live"),
            ]
        )
    )
    if seen.sampled:
        output.tell(
            f"Estimated from {number(seen.looked_at)} of them, evenly spread over all.",
            style="dim",
        )


def estimate_document(seen: Estimate, filters: Filters, owner: str | None) -> dict[str, Any]:
    """The same for programs."""
    return {"owner": owner, "filters": _filters(filters), **asdict(seen), "sampled": seen.sampled}


def show_runs(output: Output, runs: Sequence[tuple[Run, Tally]]) -> None:
    """Print a table of runs."""
    table = columns(">run", "state", "begun", ">sessions", ">settled", ">saved", "meant")
    for run, tally in runs:
        table.add_row(
            str(run.id),
            run.state.value,
            moment(run.created_at),
            number(run.sessions),
            number(tally.settled),
            number(tally.tokens_saved),
            cell(filter_words(run.filters, run.owner)),
        )
    output.show(table)


def show_run(
    output: Output,
    run: Run,
    tally: Tally,
    unsuccessful: Unsuccessful,
    *,
    cost: float | None,
    currency: str,
) -> None:
    """Print what came of a run so far."""
    left = tally.waiting + tally.asked
    output.show(
        facts(
            [
                ("run", f"{run.id}, {run.state.value}; {filter_words(run.filters, run.owner)}"),
                ("begun", f"{moment(run.created_at)} by {run.actor}"),
                *([("ended", moment(run.ended_at))] if run.state is RunState.DONE else []),
                (
                    "sessions",
                    f"{number(run.sessions)}: {number(tally.settled)} settled, "
                    f"{number(tally.asked)} under way, {number(tally.waiting)} waiting",
                ),
                *[
                    ("" if place else "outcomes", f"{number(many)} {outcome_words(outcome)}")
                    for place, (outcome, many) in enumerate(tally.outcomes.items())
                ],
                (
                    "live tokens",
                    f"{number(tally.tokens_before)} → {number(tally.tokens_after)}, "
                    f"{number(tally.tokens_saved)} saved",
                ),
                (
                    "requests",
                    f"{number(tally.requests)}: {number(tally.prompt_tokens)} tokens sent, "
                    f"{number(tally.completion_tokens)} answered",
                ),
                ("cost", money(cost, currency)),
                *_took(run, tally),
            ]
        )
    )
    if unsuccessful:
        table = columns("owner", "session", "came to", title="Not as small as could be")
        for owner, session, outcome, error in unsuccessful:
            why = outcome_words(outcome) + (f" ({error})" if error else "")
            table.add_row(cell(owner), cell(session), why)
        output.show("", table)
    if left and run.state is RunState.STOPPED:
        output.tell(f"`afterturn recompact resume {run.id}` goes on.")


def run_document(
    run: Run, tally: Tally, unsuccessful: Unsuccessful, *, cost: float | None, currency: str
) -> dict[str, Any]:
    """A run for programs."""
    return {
        "run": run.id,
        "state": run.state.value,
        "owner": run.owner,
        "actor": run.actor,
        "filters": _filters(run.filters),
        "at_once": run.at_once,
        "pace_ms": run.pace_ms,
        "created_at": moment_utc(run.created_at),
        "ended_at": moment_utc(run.ended_at),
        "sessions": run.sessions,
        "settled": tally.settled,
        "under_way": tally.asked,
        "waiting": tally.waiting,
        "outcomes": dict(tally.outcomes),
        "tokens_before": tally.tokens_before,
        "tokens_after": tally.tokens_after,
        "tokens_saved": tally.tokens_saved,
        "requests": tally.requests,
        "prompt_tokens": tally.prompt_tokens,
        "completion_tokens": tally.completion_tokens,
        "cost": cost,
        "currency": currency,
        "unsuccessful": [
            {"owner": owner, "session": session, "outcome": outcome, "error_class": error}
            for owner, session, outcome, error in unsuccessful
        ],
    }


def outcome_words(outcome: str) -> str:
    """What became of a session of a run."""
    return {"dead": "given up as dead jobs", "untouched": "withdrawn by somebody"}.get(
        outcome, outcome_name(outcome)
    )


def _took(run: Run, tally: Tally) -> list[tuple[str, str]]:
    if run.state is not RunState.DONE or run.ended_at is None:
        return []
    took = run.ended_at - run.created_at
    rate = tally.settled / max(took / 60_000, 1 / 60)
    return [("took", f"{duration(took)}, {rate:,.1f} sessions a minute")]


def _filters(filters: Filters) -> dict[str, Any]:
    return {**asdict(filters), "sources": list(filters.sources)}


def ended_sentence(run: Run, tally: Tally) -> str:
    """One line on a run that ended."""
    return (
        f"Run {run.id} is {run.state.value}: {count(tally.settled, 'session')} settled, "
        f"{number(tally.tokens_saved)} tokens saved."
    )
