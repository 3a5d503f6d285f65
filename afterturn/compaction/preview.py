"""What a pass would do: planned without changing anything, and shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from afterturn.render.console import Output
from afterturn.render.fields import (
    NUMBER,
    Field,
    Fields,
    document,
    for_people,
    for_programs,
    show_table,
    within,
)
from afterturn.render.words import NONE, count, number, share
from storage.conversations.rows import Kind
from storage.conversations.sessions import SessionRecord
from workers.batch.plan import (
    Circumstances,
    NothingToCompact,
    learned_room,
    material_of,
    plan_batch,
)
from workers.batch.preview import Portion, Portions, Preview, preview
from workers.batch.requests import write_requests
from workers.batch.span import CompactionOptions
from workers.policy.triggers import RULES, Trigger
from workers.runtime.context import WorkerContext

_MARKERS = {Kind.BATCH: "the previous batch summary", Kind.MICRO: "the rolling summary"}


def preview_pass(
    worker: WorkerContext,
    session: SessionRecord,
    options: CompactionOptions,
    trigger: Trigger = Trigger.MANUAL,
) -> Preview | NothingToCompact:
    """Plan the session's next pass as the job would, and return what it would do."""
    given = Circumstances(worker.settings.current().compression, RULES[trigger], options)
    with worker.database.read() as connection:
        plan = plan_batch(connection, session.key, given)
        if isinstance(plan, NothingToCompact):
            return plan
        read = material_of(connection, session.key, plan.span)
        most_room = learned_room(connection, worker, session.key)
    requests = write_requests(
        read,
        target_tokens=plan.target_tokens,
        replaced_tokens=plan.span.tokens,
        room=worker.summariser.room,
        most_room=most_room,
        focus=options.focus,
        today=worker.today(),
    )
    return preview(plan, requests)


def _positions(portion: Portion) -> str:
    if portion.first is None:
        return NONE
    if portion.first == portion.last:
        return str(portion.first)
    return f"{portion.first} to {portion.last}"


PORTION: Fields[Portion] = (
    *for_programs("messages", "markers"),
    # For people, summaries are messages too.
    for_people("messages", lambda one: number(one.rows), NUMBER),
    Field("by_users", "by users", lambda one: one.by_users, NUMBER),
    Field("tokens", "tokens", lambda one: one.tokens, NUMBER),
    for_people("positions", _positions),
    Field("first_position", None, lambda one: one.first),
    Field("last_position", None, lambda one: one.last),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a view with its name and a remark for people."""

    name: str
    portion: Portion
    remark: str


PART: Fields[Part] = (
    for_people("part", lambda one: one.name),
    *within(lambda one: one.portion, PORTION),
    for_people("", lambda one: one.remark),
)


def parts_of(view: Portions, middle: str, remarks: tuple[str, str, str, str]) -> list[Part]:
    """Return the parts of a view in their order, without an empty one between middle and tail."""
    portions = (view.head, view.leaving, view.held, view.tail)
    names = ("head", middle, "held", "tail")
    return [
        Part(name, portion, remark)
        for name, portion, remark in zip(names, portions, remarks, strict=True)
        if portion.rows or portion is not view.held
    ]


def parts_document(view: Portions, middle: str) -> dict[str, object]:
    """Return the parts of a view for programs."""
    return {
        "head": document(PORTION, view.head),
        middle: document(PORTION, view.leaving),
        "held": document(PORTION, view.held),
        "tail": document(PORTION, view.tail),
    }


PREVIEW: Fields[Preview] = (
    *for_programs("threshold_tokens", "occupancy", "occupancy_after"),
    Field("view", None, lambda one: document(PORTION, one.parts.view)),
    Field("replaced_markers", None, lambda one: [kind.value for kind in one.replaced]),
    *for_programs("summary_tokens", "verbatim_tokens", "tokens_after", "rows_after"),
    *for_programs("saved_tokens", "requests"),
)


def preview_document(planned: Preview) -> dict[str, object]:
    """Return a preview for programs."""
    return {**document(PREVIEW, planned), **parts_document(planned.parts, "summarised")}


def show_preview(output: Output, planned: Preview, *, summarisers: str, local: bool) -> None:
    """Print what a pass would do.

    `summarisers` is who would be asked, in words; `local` says that it is the built-in one, which
    takes no request.
    """
    remarks = ("stays", "leaves the view", "stays between them", "stays")
    now = Part("now", planned.parts.view, f"{share(planned.occupancy)} full")
    after = Portion(
        messages=planned.rows_after,
        by_users=planned.parts.view.by_users - planned.parts.leaving.by_users,
        tokens=planned.tokens_after,
    )
    then = Part("afterwards, about", after, f"{share(planned.occupancy_after)} full")
    parts = parts_of(planned.parts, "summarised", remarks)
    show_table(output, PART, [*parts, now, then])
    output.write(*_sentences(planned, summarisers, local=local))
    if planned.saved_tokens <= 0:
        output.notice(
            "A summary of that size is refused: it would not be smaller than what it replaces.",
            style="yellow",
        )


def _sentences(planned: Preview, summarisers: str, *, local: bool) -> Iterator[str]:
    verbatim = (
        f", {number(planned.verbatim_tokens)} of them user messages word for word"
        if planned.verbatim_tokens
        else ""
    )
    yield f"Summary: about {number(planned.summary_tokens)} tokens{verbatim}."
    if planned.replaced:
        replaced = " and ".join(_MARKERS.get(kind, "a summary") for kind in planned.replaced)
        yield f"It takes the place of {replaced} too."
    saved = max(0, planned.saved_tokens)
    part = share(saved / max(1, planned.tokens_before))
    yield (
        f"Saving: about {number(saved)} tokens, {part} of the view. Full is the threshold, "
        f"{number(planned.threshold_tokens)} tokens."
    )
    asked = "" if local else f", {count(planned.requests, 'request')} expected"
    yield f"Summariser: {summarisers}{asked}."
