"""An explanation as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from afterturn.compaction.preview_tables import part_cells
from afterturn.console import Output
from afterturn.explanation.reading import Explanation, Model
from afterturn.guard_words import guard_end, guard_sentence
from afterturn.session_tables import window_words
from afterturn.terms import summary_name, trigger_name
from afterturn.words import (
    NONE,
    cell,
    clock,
    columns,
    count,
    duration,
    facts,
    number,
    share,
    until,
)
from storage.job_records import JobRecord
from storage.jobs import JobState
from workers.holds import Hold
from workers.managed import ManagedBy
from workers.pruning.outcomes import NothingToPrune
from workers.trigger_status import TriggerStatus
from workers.triggers import Trigger

ERRORS = frozenset({Trigger.CONTEXT_OVERFLOW})
"""The one that stands for all of them."""


def show_explanation(output: Output, told: Explanation) -> None:
    """Print how full a session is, what a pass would find, what asks for one and what holds it."""
    output.show(facts(_figures(told)))
    _show_parts(output, told)
    output.tell(*_sentences(told))
    _show_triggers(output, told)
    output.tell(*_holds(told))


def _figures(told: Explanation) -> Iterator[tuple[str, str]]:
    session, fullness = told.session, told.fullness
    yield "session", f"{session.id}, owner {session.owner}"
    yield "model", session.model or "not named"
    yield "window", window_words(session)
    threshold = fullness.threshold
    yield (
        "threshold",
        f"{number(threshold.tokens)} tokens: {fullness.why}" if threshold else fullness.why,
    )
    full = f", {share(fullness.occupancy)} of the threshold" if threshold else ""
    yield (
        "live view",
        f"{number(session.live_tokens)} tokens in {count(session.live_messages, 'message')}{full}",
    )
    yield "calibrated", _calibrated(told)
    if told.by is not None:
        yield "compacted by", _managed(told)


def _calibrated(told: Explanation) -> str:
    learned, threshold = told.calibration, told.fullness.threshold
    if not learned.samples:
        return "not yet: no usage was reported, so the estimate counts as it is"
    full = f", {share(told.estimate / threshold.tokens)} of the threshold" if threshold else ""
    return (
        f"about {number(told.estimate)} tokens as the provider counts{full}: "
        f"{learned.ratio:.2f} × ours and {number(learned.additive)} for what is sent besides, "
        f"learned from {count(learned.samples, 'report')}"
    )


def _managed(told: Explanation) -> str:
    if told.by is ManagedBy.CODEX:
        return "a Codex app server, which owns the thread; only a person asks for a pass here"
    at = f" at {number(told.server_tokens)} tokens" if told.server_tokens else ""
    return f"OpenAI on its side{at}; a pass here is the backstop"


def _show_parts(output: Output, told: Explanation) -> None:
    if told.parts is None:
        return
    table = columns("part", ">messages", ">by users", ">tokens", "positions", "")
    for name, portion, remark in (
        ("head", told.parts.head, "never summarised"),
        ("middle", told.parts.leaving, "what a pass takes"),
        ("held", told.parts.held, "stays between them"),
        ("tail", told.parts.tail, "kept word for word"),
    ):
        if portion.rows or portion is not told.parts.held:
            table.add_row(*part_cells(name, portion), remark)
    output.show(table)


def _sentences(told: Explanation) -> Iterator[str]:
    if told.batch_idle is not None:
        yield f"A batch pass has nothing to do: {told.batch_idle}."
    if told.micro_idle is not None:
        yield f"A micro pass has nothing to do: {told.micro_idle}."
    yield _pruning(told)
    if told.short.messages:
        yield (
            f"Shown short: {count(told.short.messages, 'message')} with old tool output, "
            f"{number(told.short.tokens)} tokens left out; `afterturn prune {told.session.id} "
            "--undo` shows them in full."
        )
    for one in told.shown:
        yield (
            f"Shown: a {summary_name(one.kind)}, {number(one.tokens)} tokens for positions "
            f"{one.first_position} to {one.last_position}."
        )
    if not told.shown:
        yield "No summary is shown yet."
    if told.placeholder is not None:
        waits = any(job.trigger == Trigger.HEAL for job in told.open_jobs)
        yield (
            "The placeholder is replaced by a real summary as soon as the model answers."
            if waits
            else "The placeholder stays until a batch pass, which reads what it stands for."
        )
    for job in told.open_jobs:
        yield _job(job, told.now)
    if not told.open_jobs:
        yield "No job is open."
    if told.unknown_models is not None:
        yield f"The summariser cannot be told here: {told.unknown_models}."
    for model in told.models:
        yield _model(model, told.now)


def _pruning(told: Explanation) -> str:
    if isinstance(told.prune, NothingToPrune):
        return f"A pruning pass has nothing to do: {told.prune.reason}."
    rows = count(len(told.prune.rows), "message")
    return f"A pruning pass would free {number(told.prune.spared)} tokens of {rows}."


def _job(job: JobRecord, now: int) -> str:
    asks = f" ({trigger_name(job.trigger)})" if job.kind != job.trigger else ""
    tries = f", {count(job.tries, 'attempt')} failed" if job.tries else ""
    why = f", last time {job.reason}" if job.reason else ""
    return f"Open: {job.kind} job {job.id}{asks}, {_due(job, now)}{tries}{why}."


def _due(job: JobRecord, now: int) -> str:
    if job.state is JobState.RUNNING:
        return "a worker has it"
    if job.run_at <= now:
        return "due now"
    return f"due at {clock(job.run_at, now)}, in {duration(job.run_at - now)}"


def _model(model: Model, now: int) -> str:
    state = model.state
    if model.route is None:
        return "Summariser: the built-in local one."
    if state is None:
        return f"Summariser: {model.route}, not asked yet."
    if not state.is_open:
        waits = "; everybody waits for the end of one request" if state.probing else ""
        return (
            f"Summariser: {model.route}; {count(state.requests, 'request')} and "
            f"{number(state.tokens)} tokens in this minute{waits}."
        )
    why = f" ({state.error_class})" if state.error_class else ""
    down = f"Summariser: {model.route} is down after {count(state.failures, 'failure')}{why}"
    if state.probing:
        return f"{down}; one request finds out now whether it is back."
    if not state.open_for_ms:
        return f"{down}; the next request finds out whether it is back."
    return f"{down}; nobody asks it {until(now + state.open_for_ms, now)}."


def _show_triggers(output: Output, told: Explanation) -> None:
    table = columns(
        "what asks for a pass", ">from", ">now", "due", "held back", title="Automatic passes"
    )
    for one in told.statuses:
        table.add_row(
            "error of the provider" if one.trigger in ERRORS else trigger_name(one.trigger),
            number(one.limit) if one.limit is not None else "",
            _size(one),
            _met(one),
            cell(_held(one.hold, told.now)),
        )
    output.show("", table)


def _size(one: TriggerStatus) -> str:
    if one.limit is None:
        return ""
    return "unknown" if one.size is None else number(one.size)


def _met(one: TriggerStatus) -> str:
    if one.met is None:
        return "when told"
    return "yes" if one.met else "no"


def _held(hold: Hold | None, now: int) -> str:
    if hold is None:
        return NONE
    name = hold.guard or hold.reason
    return f"{name} until {clock(now + hold.left_ms, now)}" if hold.left_ms else name


def _holds(told: Explanation) -> Iterator[str]:
    """The guards that the table names, in full."""
    named = dict.fromkeys(one.hold.guard for one in told.statuses if one.hold is not None)
    for name in named:
        if name is not None and name in told.held:
            guard = told.held[name]
            yield f"{name}: {guard_sentence(name, guard)}; {guard_end(name, guard)}."
    if any(named):
        yield f"`afterturn guards clear {told.session.id}` takes guards away."
