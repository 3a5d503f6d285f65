"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")]
