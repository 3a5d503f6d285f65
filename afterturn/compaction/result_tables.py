"""What came of a compaction, as people and programs read it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from afterturn.compaction.result import Result
from afterturn.console import Output
from afterturn.guard_words import guard_end
from afterturn.signal_words import change
from afterturn.summarisers import LOCAL
from afterturn.terms import outcome_name, summary_name
from afterturn.words import count, duration, moment, moment_utc, number, share
from storage.attempts import AttemptRecord
from storage.guards import GuardName
from storage.outcomes import Outcome
from workers.batch.failure_policy import STUCK_SENTENCE


def show_result(output: Output, result: Result) -> None:
    """Print what was done, what happens next, and how to take it back."""
    if not result.tries:
        output.notice("Nothing came of it: the job was worked by nobody or is dead.", "bold red")
        return
    output.tell(_headline(result), style="green" if result.good else "bold red")
    output.tell(*_summary(result), *_next(result))
    if result.changed:
        session = result.session.id
        output.tell(
            f"To see it: `afterturn context {session}`. "
            f"To take it back: `afterturn undo {session}`."
        )
    if result.stuck:
        output.notice(STUCK_SENTENCE, style="yellow")


def _headline(result: Result) -> str:
    last = result.tries[-1]
    match last.outcome:
        case Outcome.COMPACTED:
            return f"Compacted: {change(asdict(last))}, {_saved(last)}."
        case Outcome.PLACEHOLDER:
            return (
                f"No summary could be had ({result.error_class}), so a placeholder stands in: "
                f"{change(asdict(last))}."
            )
        case Outcome.RESET:
            return f"The session was reset: {change(asdict(last))}."
        case Outcome.FAILED:
            tries = count(len(result.tries), "attempt")
            return f"Failed after {tries} ({result.error_class}). The session is unchanged."
        case Outcome.NOTHING_DUE:
            why = result.no_op.detail if result.no_op is not None else None
            return "Nothing to compact" + (f": {why}." if why else ".")
        case outcome:
            words = outcome_name(outcome)
            return f"{words[:1].upper()}{words[1:]}. The session is unchanged."


def _saved(last: AttemptRecord) -> str:
    return f"{share(1 - last.tokens_after / max(1, last.tokens_before))} saved"


def _summary(result: Result) -> list[str]:
    made, last = result.summary, result.tries[-1]
    if made is None:
        return []
    name = summary_name(made.kind)
    text = (
        f"{name[:1].upper()}{name[1:]}: {number(made.tokens)} tokens, for positions "
        f"{made.first_position} to {made.last_position}"
    )
    if last.outcome == Outcome.COMPACTED:
        asked = "" if last.model == LOCAL else f", {count(last.requests, 'request')}"
        text += f"; written by {last.model}{asked}, in {duration(last.total_ms)}"
    return [f"{text}."]


def _next(result: Result) -> list[str]:
    lines = []
    if not result.good and result.cooldown is not None and result.cooldown.left_ms:
        lines.append(
            f"Automatic passes rest {guard_end(GuardName.COOLDOWN, result.cooldown)}; "
            f"`afterturn guards clear {result.session.id}` ends that."
        )
    if result.outcome == Outcome.PLACEHOLDER:
        when = f", first at {moment(result.heal.run_at)}" if result.heal is not None else ""
        lines.append(f"Workers replace it as soon as the model answers{when}.")
    return lines


def result_document(result: Result) -> dict[str, Any]:
    """The same for programs."""
    first, last = (result.tries[0], result.tries[-1]) if result.tries else (None, None)
    made, cooldown = result.summary, result.cooldown
    return {
        "outcome": result.outcome,
        "good": result.good,
        "changed": result.changed,
        "stuck": result.stuck,
        "error_class": result.error_class,
        "attempts": len(result.tries),
        "requests": sum(one.requests for one in result.tries),
        "messages_before": first.messages_before if first else result.session.live_messages,
        "messages_after": result.session.live_messages,
        "tokens_before": first.tokens_before if first else result.session.live_tokens,
        "tokens_after": result.session.live_tokens,
        "summary": None
        if made is None
        else {
            "id": made.id,
            "kind": made.kind,
            "tokens": made.tokens,
            "model": last.model if last else "",
            "first_position": made.first_position,
            "last_position": made.last_position,
        },
        "cooldown_until": moment_utc(cooldown.until_at) if cooldown and cooldown.left_ms else None,
        "heal_at": moment_utc(result.heal.run_at) if result.heal else None,
    }
