"""What shortening old tool output would do, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afterturn.console import Output
from afterturn.words import cell, columns, count, number, share
from workers.pruning.plan import PrunePlan
from workers.pruning.rules import Rule, Shortened

MOST_ROWS = 20

_DONE = {
    Rule.COPY: "same as a later output",
    Rule.RESULT: "output left out",
    Rule.ARGUMENTS: "long arguments left out",
    Rule.IMAGES: "images left out",
}


def show_plan(output: Output, plan: PrunePlan, *, automatic_from: int) -> None:
    """Print what would change, the most saving ones first, and what it saves. `automatic_from` is
    what an automatic pass must free at least."""
    table = columns(">position", "tool", "what is done", ">tokens", ">afterwards")
    largest = sorted(plan.rows, key=lambda one: (-one.spared, one.row.position))
    for one in largest[:MOST_ROWS]:
        table.add_row(
            str(one.row.position),
            cell(", ".join(filter(None, one.tools))),
            ", ".join(_DONE[rule] for rule in one.rules),
            number(one.row.tokens),
            number(one.tokens),
        )
    output.show(table)
    if len(largest) > MOST_ROWS:
        rest = largest[MOST_ROWS:]
        output.tell(
            f"And {count(len(rest), 'message')} more, {number(_spared(rest))} tokens of them."
        )
    before = plan.session.live_tokens
    after = before - plan.spared
    output.tell(
        f"Saving: {number(plan.spared)} tokens, {share(plan.spared / max(1, before))} of the view: "
        f"{number(before)} → {number(after)} tokens. The threshold is "
        f"{number(plan.threshold.tokens)}.",
    )
    if plan.spared < automatic_from:
        output.tell(
            f"By itself that is too little: automatic passes free {number(automatic_from)} tokens "
            "or leave the view alone."
        )


def plan_document(plan: PrunePlan) -> dict[str, Any]:
    """The same for programs, every message of it."""
    return {
        "tokens_before": plan.session.live_tokens,
        "tokens_after": plan.session.live_tokens - plan.spared,
        "saved_tokens": plan.spared,
        "threshold_tokens": plan.threshold.tokens,
        "messages": [
            {
                "position": one.row.position,
                "tools": list(one.tools),
                "rules": [rule.value for rule in one.rules],
                "tokens_before": one.row.tokens,
                "tokens_after": one.tokens,
                "same_as": one.same_as,
            }
            for one in plan.rows
        ],
    }


def _spared(rows: Sequence[Shortened]) -> int:
    return sum(one.spared for one in rows)
