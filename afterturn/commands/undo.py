"""`afterturn undo`."""

from __future__ import annotations

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.console import Output
from afterturn.invocation import Invocation
from afterturn.terms import summary_name
from afterturn.words import count
from storage.summaries import SummaryKind
from storage.undo import Undone


def undo(context: typer.Context, session: SessionId, as_json: AsJson = False) -> None:
    """Take back the last compaction of a session. Its automatic passes wait for the next turn."""
    output = Output(as_json=as_json)
    with Invocation.of(context).gateway() as gateway:
        undone = gateway.undo(session)
    if as_json:
        facts = None
        if undone is not None:
            facts = {
                "summary": undone.summary_id,
                "kind": undone.kind,
                "rows_restored": undone.rows_restored,
            }
        output.document({"session": session, "undone": facts})
    elif undone is None:
        output.tell("There is no compaction to take back.")
    else:
        output.tell(
            _what(undone),
            "Automatic passes of this session wait for its next turn.",
        )


def _what(undone: Undone) -> str:
    took = f"Took back summary {undone.summary_id} ({summary_name(undone.kind)})"
    match undone.kind:
        case SummaryKind.HEALED:
            return f"{took}; the placeholder came back into the live view."
        case SummaryKind.DEFRAG:
            return f"{took}; the longer one before it came back into the live view."
        case _:
            rows = count(undone.rows_restored, "row")
            return f"{took}; {rows} came back into the live view."
