"""A preview as people and programs read it."""

from __future__ import annotations

from typing import Any

from afterturn.console import Output
from afterturn.words import NONE, columns, count, number, share
from storage.rows import Kind
from workers.batch.preview import Portion, Preview

_MARKERS = {Kind.BATCH: "the batch summary of before", Kind.MICRO: "the rolling summary"}


def show_preview(output: Output, seen: Preview, *, summarisers: str, local: bool) -> None:
    """Print what a pass would do. `summarisers` is who would be asked, in words; `local` says
    that it is the built-in one, which takes no request."""
    table = columns("part", ">messages", ">by users", ">tokens", "positions", "")
    for name, portion, remark in (
        ("head", seen.parts.head, "stays"),
        ("summarised", seen.parts.leaving, "leaves the view"),
        ("held", seen.parts.held, "stays between them"),
        ("tail", seen.parts.tail, "stays"),
    ):
        if portion.rows or portion is not seen.parts.held:
            table.add_row(*part_cells(name, portion), remark)
    table.add_section()
    table.add_row(*part_cells("now", seen.parts.view), f"{share(seen.occupancy)} full")
    table.add_row(
        "afterwards",
        number(seen.rows_after),
        number(seen.parts.view.by_users - seen.parts.leaving.by_users),
        f"~{number(seen.tokens_after)}",
        "",
        f"{share(seen.occupancy_after)} full",
    )
    output.show(table)
    output.tell(*_sentences(seen, summarisers, local=local))
    if seen.saved_tokens <= 0:
        output.notice(
            "A summary of that size is refused: it would not be smaller than what it replaces.",
            style="yellow",
        )


def _sentences(seen: Preview, summarisers: str, *, local: bool) -> list[str]:
    replaced = " and ".join(_MARKERS.get(kind, "a summary") for kind in seen.replaced)
    part = (
        f", {number(seen.verbatim_tokens)} of them user messages word for word"
        if seen.verbatim_tokens
        else ""
    )
    asked = "" if local else f", {count(seen.requests, 'request')} expected"
    lines = [f"Summary: about {number(seen.summary_tokens)} tokens{part}."]
    if replaced:
        lines.append(f"It takes the place of {replaced} too.")
    saved = max(0, seen.saved_tokens)
    part = share(saved / max(1, seen.tokens_before))
    lines.append(
        f"Saving: about {number(saved)} tokens, {part} of the view. Full is the threshold, "
        f"{number(seen.threshold_tokens)} tokens."
    )
    return [*lines, f"Summariser: {summarisers}{asked}."]


def part_cells(name: str, portion: Portion) -> tuple[str, str, str, str, str]:
    """A part of a view in a table: name, messages with the summaries among them, those by users,
    tokens, positions."""
    return (
        name,
        number(portion.rows),
        number(portion.by_users),
        number(portion.tokens),
        _positions(portion),
    )


def _positions(portion: Portion) -> str:
    if portion.first is None:
        return NONE
    if portion.first == portion.last:
        return str(portion.first)
    return f"{portion.first} to {portion.last}"


def preview_document(seen: Preview) -> dict[str, Any]:
    """A preview for programs."""
    return {
        "threshold_tokens": seen.threshold_tokens,
        "occupancy": seen.occupancy,
        "occupancy_after": seen.occupancy_after,
        "view": portion_document(seen.parts.view),
        "head": portion_document(seen.parts.head),
        "summarised": portion_document(seen.parts.leaving),
        "held": portion_document(seen.parts.held),
        "tail": portion_document(seen.parts.tail),
        "replaced_markers": [kind.value for kind in seen.replaced],
        "summary_tokens": seen.summary_tokens,
        "verbatim_tokens": seen.verbatim_tokens,
        "tokens_after": seen.tokens_after,
        "rows_after": seen.rows_after,
        "saved_tokens": seen.saved_tokens,
        "requests": seen.requests,
    }


def portion_document(portion: Portion) -> dict[str, Any]:
    """A part of a view for programs."""
    return {
        "messages": portion.messages,
        "by_users": portion.by_users,
        "markers": portion.markers,
        "tokens": portion.tokens,
        "first_position": portion.first,
        "last_position": portion.last,
    }
