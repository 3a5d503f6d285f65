"""`afterturn explain`: why a session is, or is not, compacted now."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict

import typer

from afterturn.commands.shared import AsJson, SessionId
from afterturn.compaction.preview import PART, parts_document, parts_of
from afterturn.explanation import Explanation, Model, read_explanation
from afterturn.invocation import Invocation
from afterturn.render.console import Output
from afterturn.render.fields import (
    ID,
    MOMENT,
    NUMBER,
    Field,
    Fields,
    document,
    documents,
    for_people,
    for_programs,
    lines,
    show_table,
)
from afterturn.render.sentences import guard_end, guard_sentence
from afterturn.render.sessions import (
    GUARD,
    SESSION,
    SUMMARY,
    Listed,
    job_fields,
    threshold_words,
    view_words,
    window_words,
)
from afterturn.render.terms import LOCAL, summary_name, trigger_name
from afterturn.render.words import NONE, clock, count, duration, number, share, until
from storage.job_records import JobRecord
from storage.jobs import JobState
from workers.calibration import Calibration
from workers.holds import Hold
from workers.managed import ManagedBy
from workers.pruning.outcomes import NothingToPrune
from workers.pruning.plan import PrunePlan
from workers.standings import Standing
from workers.triggers import Trigger

ERRORS = frozenset({Trigger.CONTEXT_OVERFLOW})
"""The one that stands for all of them."""

REMARKS = ("never summarised", "what a pass takes", "stays between them", "kept word for word")


def explain(context: typer.Context, session: SessionId, as_json: AsJson = False) -> None:
    """Explain why a session is, or is not, compacted now: sizes, triggers, guards, summarisers.

    Changes nothing and asks no model.
    """
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, settings):
        found = read_explanation(
            database, settings, os.environ, owner=invocation.owner, session_id=session
        )
    if as_json:
        listed = Listed(found.session, found.fullness)
        output.document({**document(SESSION, listed), **document(EXPLANATION, found)})
    else:
        _show(output, found)


def _show(output: Output, found: Explanation) -> None:
    output.show(lines(EXPLANATION, found))
    if found.parts is not None:
        show_table(output, PART, parts_of(found.parts, "middle", REMARKS))
    output.write(*_sentences(found))
    output.show("")
    show_table(output, trigger_fields(found.now), found.standings, title="Automatic passes")
    output.write(*_guards(found))


def _calibrated(found: Explanation) -> str:
    learned, occupancy = found.calibration, _estimated_occupancy(found)
    if not learned.samples:
        return "not yet: no usage was reported, so our own estimate is used"
    full = f", {share(occupancy)} of the threshold" if occupancy is not None else ""
    return (
        f"about {number(found.estimate)} tokens as the provider counts{full}: "
        f"{learned.ratio:.2f} × ours and {number(learned.additive)} for what else is sent, "
        f"learned from {count(learned.samples, 'report')}"
    )


def _managed(found: Explanation) -> str:
    if found.by is None:
        return ""
    if found.by is ManagedBy.CODEX:
        return "a Codex app server, which owns the thread; only a person asks for a pass here"
    at = f" at {number(found.server_tokens)} tokens" if found.server_tokens else ""
    return f"OpenAI on its side{at}; a pass here is the backstop"


def _estimated_occupancy(found: Explanation) -> float | None:
    threshold = found.fullness.threshold
    return found.estimate / threshold.tokens if threshold else None


EXPLANATION: Fields[Explanation] = (
    for_people("session", lambda one: f"{one.session.id}, owner {one.session.owner}"),
    for_people("model", lambda one: one.session.model or "not named"),
    for_people("window", lambda one: window_words(one.session)),
    Field("threshold_reason", "threshold", lambda one: one.fullness.why,
          text=lambda one: threshold_words(one.fullness)),
    for_people("live view", lambda one: view_words(one.session, one.fullness)),
    Field("declared_window", None, lambda one: one.session.declared_window),
    Field("calibration", "calibrated",
          lambda one: document(CALIBRATION, one.calibration), text=_calibrated),
    Field("estimated_tokens", None, lambda one: one.estimate),
    Field("estimated_occupancy", None, _estimated_occupancy),
    Field("reported_prompt_tokens", None, lambda one: one.prompt_tokens),
    Field("managed_by", "compacted by", lambda one: one.by, text=_managed),
    Field("server_threshold_tokens", None, lambda one: one.server_tokens),
    Field("parts", None, lambda one: one.parts and parts_document(one.parts, "middle")),
    Field("batch_has_nothing_to_do", None, lambda one: one.batch_idle),
    Field("micro_has_nothing_to_do", None, lambda one: one.micro_idle),
    Field("pruning_has_nothing_to_do", None,
          lambda one: one.prune.reason if isinstance(one.prune, NothingToPrune) else None),
    Field("pruning_would_free_tokens", None,
          lambda one: one.prune.spared if isinstance(one.prune, PrunePlan) else one.prune.tokens),
    Field("shown_short", None, lambda one: {"messages": one.short.messages,
                                            "tokens_left_out": one.short.tokens}),
    Field("summaries", None, lambda one: documents(SUMMARY, one.shown)),
    Field("open_jobs", None, lambda one: documents(job_fields(one.now), one.open_jobs)),
    Field("triggers", None, lambda one: documents(trigger_fields(one.now), one.standings)),
    Field("guards", None, lambda one: documents(GUARD, sorted(one.held.items()))),
    Field("summarisers", None, lambda one: documents(MODEL, one.models)),
    Field("summarisers_unknown", None, lambda one: one.unknown_models),
)  # fmt: skip

CALIBRATION: Fields[Calibration] = for_programs("samples", "ratio", "additive")

MODEL: Fields[Model] = (
    Field("route", None, lambda one: one.route or LOCAL),
    Field("state", None, lambda one: None if one.state is None else asdict(one.state)),
)


def trigger_fields(now: int) -> Fields[Standing]:
    """Return the fields of the state of triggers, with times relative to `now`."""
    return (
        Field("trigger", "what asks for a pass", lambda one: one.trigger, ID,
              text=lambda one: "error of the provider" if one.trigger in ERRORS
              else trigger_name(one.trigger)),
        Field("limit", "from", lambda one: one.limit, NUMBER,
              text=lambda one: "" if one.limit is None else number(one.limit)),
        Field("size", "now", lambda one: one.size, NUMBER, text=_size),
        Field("due", "due", lambda one: one.met,
              text=lambda one: {None: "on request", True: "yes", False: "no"}[one.met]),
        Field("suppressed_by", "suppressed by",
              lambda one: one.hold and document(suppression_fields(now), one.hold),
              text=lambda one: _suppression(one.hold, now)),
    )  # fmt: skip


def suppression_fields(now: int) -> Fields[Hold]:
    """Return the fields of what suppresses a pass."""
    return (
        *for_programs("reason", "guard"),
        Field("until", None, lambda one: now + one.left_ms if one.left_ms else None, MOMENT),
        Field("left_seconds", None, lambda one: one.left_ms / 1000),
    )


def _size(one: Standing) -> str:
    if one.limit is None:
        return ""
    return "unknown" if one.size is None else number(one.size)


def _suppression(hold: Hold | None, now: int) -> str:
    if hold is None:
        return NONE
    name = hold.guard or hold.reason
    return f"{name} until {clock(now + hold.left_ms, now)}" if hold.left_ms else name


def _sentences(found: Explanation) -> Iterator[str]:
    if found.batch_idle is not None:
        yield f"A batch pass has nothing to do: {found.batch_idle}."
    if found.micro_idle is not None:
        yield f"A micro pass has nothing to do: {found.micro_idle}."
    yield _pruning(found)
    if found.short.messages:
        yield (
            f"Shown short: {count(found.short.messages, 'message')} with old tool output, "
            f"{number(found.short.tokens)} tokens left out; `afterturn prune {found.session.id} "
            "--undo` shows them in full."
        )
    for one in found.shown:
        yield (
            f"Shown: a {summary_name(one.kind)}, {number(one.tokens)} tokens for positions "
            f"{one.first_position} to {one.last_position}."
        )
    if not found.shown:
        yield "No summary is shown yet."
    if found.placeholder is not None:
        waits = any(job.trigger == Trigger.HEAL for job in found.open_jobs)
        yield (
            "The placeholder is replaced by a real summary as soon as the model answers."
            if waits
            else "The placeholder stays until a batch pass, which reads what it replaced."
        )
    for job in found.open_jobs:
        yield _job(job, found.now)
    if not found.open_jobs:
        yield "No job is open."
    if found.unknown_models is not None:
        yield f"The summariser is not known here: {found.unknown_models}."
    for model in found.models:
        yield _model(model, found.now)


def _pruning(found: Explanation) -> str:
    if isinstance(found.prune, NothingToPrune):
        return f"A pruning pass has nothing to do: {found.prune.reason}."
    rows = count(len(found.prune.rows), "message")
    return f"A pruning pass would free {number(found.prune.spared)} tokens of {rows}."


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
        waits = "; all others wait for the end of one request" if state.probing else ""
        return (
            f"Summariser: {model.route}; {count(state.requests, 'request')} and "
            f"{number(state.tokens)} tokens in this minute{waits}."
        )
    why = f" ({state.error_class})" if state.error_class else ""
    down = f"Summariser: {model.route} is down after {count(state.failures, 'failure')}{why}"
    if state.probing:
        return f"{down}; one request checks now whether it is back."
    if not state.open_for_ms:
        return f"{down}; the next request checks whether it is back."
    return f"{down}; nobody asks it {until(now + state.open_for_ms, now)}."


def _guards(found: Explanation) -> Iterator[str]:
    """Yield the guards that the table names, in full."""
    named = dict.fromkeys(one.hold.guard for one in found.standings if one.hold is not None)
    for name in named:
        if name is not None and name in found.held:
            guard = found.held[name]
            yield f"{name}: {guard_sentence(name, guard)}; {guard_end(name, guard)}."
    if any(named):
        yield f"`afterturn guards clear {found.session.id}` clears them."
