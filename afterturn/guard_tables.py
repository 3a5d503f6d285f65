"""Guards of sessions and breakers of endpoints: tables."""

from __future__ import annotations

from collections.abc import Sequence

from afterturn.console import Output
from afterturn.guard_words import guard_end, guard_sentence
from afterturn.session_tables import WIDE
from afterturn.words import NONE, cell, columns, duration, number
from storage.endpoints import EndpointState
from storage.guards import HeldSession


def show_guards(output: Output, held: Sequence[HeldSession], *, all_owners: bool) -> None:
    """Print what holds sessions back or counts towards it."""
    owner = ["owner"] if all_owners else []
    table = columns(*owner, "session", "guard", "what it says", "ends", title="Guards of sessions")
    next(column for column in table.columns if column.header == "session").no_wrap = True
    for one in held:
        table.add_row(
            *([cell(one.owner)] if all_owners else []),
            cell(one.session_id),
            one.name,
            cell(guard_sentence(one.name, one.guard)),
            guard_end(one.name, one.guard),
        )
    output.show(table)


def show_endpoints(output: Output, states: Sequence[EndpointState]) -> None:
    """Print how the endpoints that write summaries stand."""
    wide = output.results.width >= WIDE
    usage = [">requests this minute", ">tokens"] if wide else []
    table = columns("endpoint", "breaker", ">failures", "last error", *usage, title="Endpoints")
    for state in states:
        used = [number(state.requests), number(state.tokens)] if wide else []
        table.add_row(
            cell(state.name),
            breaker_words(state),
            number(state.failures),
            cell(state.error_class or NONE),
            *used,
        )
    output.show(table)


def breaker_words(state: EndpointState) -> str:
    """Whether an endpoint may be asked, and when again."""
    if not state.is_open:
        return "closed, one request is out" if state.probing else "closed"
    if state.probing:
        return "open, a probe is out"
    if not state.open_for_ms:
        return "open, the next request probes"
    return f"open for {duration(state.open_for_ms)}"
