"""The end of a demo for people: a table, a plot and a verdict."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from afterturn.demo.figures import Figures
from afterturn.demo.flatness import MOST_GROWTH
from afterturn.plot import legend, occupancy_plot
from afterturn.render.fields import columns
from afterturn.render.words import number, share


def show_report(console: Console, figures: Figures) -> None:
    """Print everything that there is to see."""
    console.print(_table(figures))
    if not console.options.ascii_only:
        console.print(legend(unmanaged="without afterturn", managed="with"))
        console.print(_plot(figures, width=console.width))
    console.print()
    for name, good in figures.checks.items():
        mark = Text("ok  ", style="green") if good else Text("FAIL", style="bold red")
        console.print(Text.assemble(mark, "  ", _words(name, figures)))
    if figures.flatness.flat is None:
        console.print(Text("-     too short to tell whether occupancy stays flat", style="dim"))
    console.print()
    console.print(_verdict(figures))


def _plot(figures: Figures, *, width: int) -> Text:
    measures = figures.measures
    return occupancy_plot(
        [measure.turn for measure in measures],
        unmanaged=[measure.unmanaged_tokens for measure in measures],
        managed=[measure.live_tokens for measure in measures],
        threshold=figures.threshold,
        width=width,
    )


def _table(figures: Figures) -> Table:
    table = columns("", ">without", ">with afterturn")
    for row in _rows(figures):
        table.add_row(*row)
    return table


def _rows(figures: Figures) -> Iterator[tuple[str, str, str]]:
    found, finalize, flatness = figures.findings, figures.finalize, figures.flatness
    unmanaged, threshold = figures.tokens_unmanaged, figures.threshold
    full, of = share(unmanaged / threshold), "% of the threshold"
    yield "messages in the live view", number(figures.messages), number(found.live_messages)
    yield "tokens in the live view", number(unmanaged), number(found.live_tokens)
    yield f"in % of the threshold ({number(threshold)})", full, share(found.live_tokens / threshold)
    yield f"  at most, {of}", full, share(figures.occupancy_max)
    yield (
        f"  grown over the last third, {of}",
        share(flatness.unmanaged),
        share(flatness.growth),
    )
    yield (
        f"    by the user's own messages, {of}",
        share(flatness.kept),
        share(flatness.kept),
    )
    yield "passes of micro-compaction", "", number(found.passes)
    yield "finalize_turn, middle", "", f"{finalize.p50:.1f} ms"
    yield "finalize_turn, 99 of 100", "", f"{finalize.p99:.1f} ms"
    yield "finalize_turn, slowest", "", f"{finalize.worst:.1f} ms"


def _words(check: str, figures: Figures) -> str:  # noqa: PLR0911 - one sentence per check
    found = figures.findings
    match check:
        case "nothing_lost":
            return (
                f"{number(figures.messages)} messages sent, {number(found.lost_messages)} lost: "
                f"{number(found.live_messages)} live, {number(found.archived_messages)} archived"
            )
        case "nothing_twice":
            return f"{number(found.duplicate_messages)} stored twice"
        case "nothing_altered":
            order = "in their order" if found.in_order else "not in their order"
            return f"{number(found.altered_messages)} altered, {order}"
        case "user_messages_verbatim":
            return f"{number(found.user_messages)} user messages word for word in the live view"
        case "at_most_one_marker":
            return f"{found.live_markers} live marker, at most 1"
        case "counters_right":
            return f"{number(found.counted_tokens)} live tokens when counted row by row"
        case "no_batch_pass_needed":
            return f"{figures.batch_passes_needed} batch passes needed"
        case "no_job_left":
            return f"{figures.open_jobs} jobs left"
        case "occupancy_flat":
            return (
                f"last third: grown by {share(figures.flatness.beyond_kept)} of the threshold "
                f"beyond the user's own messages, at most {share(MOST_GROWTH)}"
            )
        case _:
            return check


def _verdict(figures: Figures) -> Text:
    told = f"{figures.turns} turns in {figures.seconds:.0f} s, summaries by {figures.summariser}"
    if figures.good:
        return Text.assemble(("PASS", "bold green"), f"  {told}")
    bad = ", ".join(name for name, good in figures.checks.items() if not good)
    return Text.assemble(("FAIL", "bold red"), f"  {bad}; {told}")
