"""Fields of sessions and of what belongs to one: summaries, jobs, guards, attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from afterturn.overview import Fullness, Overview
from afterturn.render.console import Output
from afterturn.render.fields import (
    DURATION,
    ID,
    MOMENT,
    NUMBER,
    OPTIONAL,
    SERIAL,
    SHARE,
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
from afterturn.render.sentences import SUPPRESSING, guard_end, guard_sentence
from afterturn.render.terms import attempt_name, outcome_name, summary_name
from afterturn.render.words import clock, count, duration, moment, number, share
from storage.attempts import AttemptRecord
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind, SummaryRecord
from storage.guards import GuardedSession, GuardName, GuardRecord
from storage.jobs import JobState
from storage.jobs.job_records import JobRecord
from workers.policy.threshold import DEFAULT_WINDOW

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as it is listed."""

    record: SessionRecord
    fullness: Fullness

    @property
    def threshold_tokens(self) -> int | None:
        return self.fullness.threshold.tokens if self.fullness.threshold else None


SESSION: Fields[Listed] = (
    Field("owner", "owner", lambda one: one.record.owner, ID),
    Field("id", "session", lambda one: one.record.id, ID),
    Field("source", "source", lambda one: one.record.source, priority=2),
    Field("title", "title", lambda one: one.record.title, OPTIONAL, priority=3),
    Field("chat_id", "chat", lambda one: one.record.chat_id, OPTIONAL, priority=4),
    Field("thread_id", None, lambda one: one.record.thread_id or None),
    *within(lambda one: one.record, for_programs("model", "context_window", "reserved_output")),
    Field("threshold_tokens", None, lambda one: one.threshold_tokens),
    Field("turns", "turns", lambda one: one.record.turns, NUMBER, priority=1),
    Field("live_tokens", "live tokens", lambda one: one.record.live_tokens, NUMBER),
    Field("occupancy", "full", lambda one: one.fullness.occupancy, SHARE),
    *within(
        lambda one: one.record,
        for_programs("live_messages", "turn_open", "passes", "tokens_saved", "revision"),
    ),
    Field("started_at", None, lambda one: one.record.started_at, MOMENT),
    Field("active_at", "active", lambda one: one.record.active_at, MOMENT,
          text=lambda one: "ended" if one.record.ended_at else moment(one.record.active_at)),
    Field("ended_at", None, lambda one: one.record.ended_at, MOMENT),
)  # fmt: skip

SUMMARY: Fields[SummaryRecord] = for_programs(
    "id", "kind", "tokens", "first_position", "last_position"
)

GUARD: Fields[tuple[GuardName, GuardRecord]] = (
    Field("name", "guard", lambda one: one[0], ID),
    Field("says", "what it says", lambda one: guard_sentence(*one)),
    for_people("ends", lambda one: guard_end(*one)),
    *within(lambda one: one[1], for_programs("count", "subject", "detail")),
    Field("until", None, lambda one: one[1].until_at, MOMENT),
    Field("left_seconds", None, lambda one: one[1].left_ms / 1000),
    Field("over", None, lambda one: one[1].is_over),
)

GUARD_OF_SESSION: Fields[GuardedSession] = (
    Field("owner", "owner", lambda one: one.owner, ID),
    Field("session", "session", lambda one: one.session_id, ID),
    *within(lambda one: (one.name, one.guard), GUARD),
)


def job_fields(now: int) -> Fields[JobRecord]:
    """Return the fields of open jobs, with times relative to `now`."""
    return (
        Field("id", "job", lambda job: job.id, SERIAL),
        Field("kind", "kind", lambda job: job.kind,
              text=lambda job: attempt_name(job.kind, job.trigger)),
        Field("trigger", None, lambda job: job.trigger),
        Field("state", "state", lambda job: job.state, priority=2),
        Field("queue", "queue", lambda job: job.queue, priority=3),
        Field("run_at", "due at", lambda job: job.run_at, MOMENT,
              text=lambda job: clock(job.run_at, now), priority=1),
        for_people("next attempt", lambda job: _next_attempt(job, now)),
        Field("attempt", "attempt", lambda job: job.attempt, SERIAL),
        Field("tries", None, lambda job: job.tries),
        Field("reason", "reason", lambda job: job.reason, OPTIONAL),
    )  # fmt: skip


def _next_attempt(job: JobRecord, now: int) -> str:
    if job.state is not JobState.DUE:
        return "runs"
    return f"in {duration(job.run_at - now)}" if job.run_at > now else "now"


def attempt_fields(
    get: Callable[[T], AttemptRecord], undone: Callable[[T], bool] = lambda _: False
) -> list[Field[T]]:
    """Return the fields of attempts that `get` takes from a thing."""

    def outcome(thing: T) -> str:
        one = get(thing)
        error = f" ({one.error_class})" if one.error_class else ""
        return outcome_name(one.outcome) + error + (", undone" if undone(thing) else "")

    return [
        for_people(
            "pass", lambda thing: attempt_name(get(thing).kind, get(thing).trigger)
        ),
        Field("outcome", "outcome", lambda thing: get(thing).outcome, text=outcome),
        *within(get, _ATTEMPT),
    ]  # fmt: skip


def _asked(one: AttemptRecord) -> str:
    """Return the tokens that models read and wrote, empty where none was asked."""
    tokens = (one.prompt_tokens or 0) + (one.completion_tokens or 0)
    return number(tokens) if one.requests else ""


_ATTEMPT: Fields[AttemptRecord] = (
    *for_programs("job_id", "kind", "trigger", "messages_before", "messages_after", "cursor"),
    *for_programs("passes", "tokens_saved", "threshold_tokens", "summary_id", "error_class"),
    *for_programs("requests", "prompt_tokens", "completion_tokens", "model_ms", "occupancy"),
    Field("absorbed_tokens", "taken", lambda one: one.absorbed_tokens, NUMBER, priority=3),
    Field("tokens_before", "live before", lambda one: one.tokens_before, NUMBER, priority=1),
    Field("tokens_after", "after", lambda one: one.tokens_after, NUMBER, priority=1),
    Field("summary_tokens", "summary", lambda one: one.summary_tokens, NUMBER, priority=4),
    for_people("asked", _asked, NUMBER, priority=4),
    Field("model", "model", lambda one: one.model, priority=3),
    Field("total_ms", "took", lambda one: one.total_ms, DURATION, priority=2),
)


def _guards(overview: Overview) -> str:
    return "\n".join(
        f"{guard_sentence(name, guard)}; {guard_end(name, guard)}"
        for name, guard in overview.guards.items()
        if name in SUPPRESSING and not guard.is_over
    )


_OVERVIEW: Fields[Overview] = (
    for_people("session", lambda one: one.session.id),
    for_people("owner", lambda one: one.session.owner),
    for_people("source", lambda one: _source(one.session)),
    for_people("title", lambda one: one.session.title or ""),
    for_people("model", lambda one: one.session.model or "not named"),
    for_people("window", lambda one: window_words(one.session)),
    Field("threshold_reason", "threshold", lambda one: one.fullness.why,
          text=lambda one: threshold_words(one.fullness)),
    for_people("live view", lambda one: view_words(one.session, one.fullness)),
    for_people("turns", lambda one: number(one.session.turns)
               + (", one is open" if one.session.turn_open else "")),
    for_people("passes", lambda one: f"{number(one.session.passes)}, "
               f"{number(one.session.tokens_saved)} tokens saved"),
    Field("next_position", None, lambda one: one.session.next_position),
    Field("cursor", "cursor", lambda one: one.cursor,
          text=lambda one: f"position {one.cursor} of {one.session.next_position}"),
    Field("batch_summary", "batch summary", lambda one: summary_document(one.batch_summary),
          text=lambda one: _batch(one.batch_summary)),
    Field("rolling_summary", "rolling summary", lambda one: summary_document(one.rolling_summary),
          text=lambda one: _rolling(one.rolling_summary)),
    for_people("started", lambda one: moment(one.session.started_at)),
    for_people("last active", lambda one: moment(one.session.active_at)),
    for_people("ended", lambda one: moment(one.session.ended_at) if one.session.ended_at else ""),
    Field("guards", "guards", lambda one: documents(GUARD, sorted(one.guards.items())),
          text=_guards),
    Field("open_jobs", None, lambda one: documents(job_fields(one.now), one.open_jobs)),
    Field("failed_tries_in_a_row", None, lambda one: one.failures),
    Field("attempts", None, lambda one: documents(_attempts_of(one), one.attempts)),
)  # fmt: skip


def overview_document(overview: Overview) -> dict[str, object]:
    """Return everything that is known of a session, for programs."""
    listed = Listed(overview.session, overview.fullness)
    return {**document(SESSION, listed), **document(_OVERVIEW, overview)}


def summary_document(summary: SummaryRecord | None) -> dict[str, object] | None:
    """Return a summary that is shown, without its text."""
    return None if summary is None else document(SUMMARY, summary)


def show_overview(output: Output, overview: Overview) -> None:
    """Print everything that is known of a session."""
    output.show(lines(_OVERVIEW, overview), "")
    if overview.failures:
        output.show(f"Failed tries in a row: {number(overview.failures)}.", "")
    if overview.open_jobs:
        show_table(output, job_fields(overview.now), overview.open_jobs, title="Jobs")
    else:
        output.show("No job is open.")
    if overview.attempts:
        output.show("")
        title = "Last passes, oldest first"
        show_table(output, _attempts_of(overview), overview.attempts, title=title)


def _attempts_of(overview: Overview) -> list[Field[AttemptRecord]]:
    def undone(one: AttemptRecord) -> bool:
        return one.summary_id in overview.undone

    return [*attempt_fields(lambda one: one, undone), Field("undone", None, undone)]


def window_words(record: SessionRecord) -> str:
    """Return a session's window and reserve, and where they come from."""
    size, declared = record.context_window, record.declared_window
    words = (
        f"{number(size)} tokens" if size else f"{number(DEFAULT_WINDOW)} tokens assumed, none named"
    )
    if record.reserved_output:
        words += f", {number(record.reserved_output)} of them reserved for output"
    if declared is not None and declared < (size or DEFAULT_WINDOW):
        words += f"; the provider said in an error that it takes {number(declared)}"
    return words


def threshold_words(fullness: Fullness) -> str:
    """Return a session's threshold and where it comes from, or why there is none."""
    if fullness.threshold is None:
        return fullness.why
    return f"{number(fullness.threshold.tokens)} tokens: {fullness.why}"


def view_words(record: SessionRecord, fullness: Fullness) -> str:
    """Return the size of a live view and how full that is."""
    full = f", {share(fullness.occupancy)} of the threshold" if fullness.threshold else ""
    messages = count(record.live_messages, "message")
    return f"{number(record.live_tokens)} tokens in {messages}{full}"


def _source(record: SessionRecord) -> str:
    chat = " / ".join(part for part in (record.chat_id, record.thread_id) if part)
    return f"{record.source}, chat {chat}" if chat else record.source


def _batch(shown: SummaryRecord | None) -> str:
    if shown is None:
        return ""
    kind = "" if shown.kind is SummaryKind.BATCH else f"; {summary_name(shown.kind)}"
    return (
        f"{number(shown.tokens)} tokens, covers positions {shown.first_position} to "
        f"{shown.last_position}{kind}"
    )


def _rolling(shown: SummaryRecord | None) -> str:
    if shown is None:
        return "none yet"
    return (
        f"{number(shown.tokens)} tokens, covers up to position {shown.last_position}; last pass "
        f"{shown.first_position} to {shown.last_position}"
    )
