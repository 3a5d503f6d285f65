"""`afterturn undo`."""

from __future__ import annotations

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.console import Output
from afterturn.invocation import Invocation
from afterturn.words import count


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
        output.show("There is no compaction to take back.")
    else:
        output.show(
            f"Took back summary {undone.summary_id} ({undone.kind}); "
            f"{count(undone.rows_restored, 'row')} came back into the live view."
        )
