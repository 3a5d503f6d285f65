"""`afterturn explain`."""

from __future__ import annotations

import os

import typer

from afterturn.commands.options import AsJson, SessionId
from afterturn.console import Output
from afterturn.explanation.document import explanation_document
from afterturn.explanation.reading import read_explanation
from afterturn.explanation.tables import show_explanation
from afterturn.invocation import Invocation


def explain(context: typer.Context, session: SessionId, as_json: AsJson = False) -> None:
    """Tell why a session is, or is not, compacted now: threshold, size, what is due, what holds.

    Changes nothing and asks no model.
    """
    invocation, output = Invocation.of(context), Output(as_json=as_json)
    with invocation.database() as (database, settings):
        told = read_explanation(
            database, settings, os.environ, owner=invocation.owner, session_id=session
        )
    if as_json:
        output.document(explanation_document(told))
    else:
        show_explanation(output, told)
