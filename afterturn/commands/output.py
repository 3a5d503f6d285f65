"""`afterturn output`."""

from __future__ import annotations

from typing import Annotated

import typer

from afterturn.commands.options import AsJson
from afterturn.console import Output as Console
from afterturn.console import plain
from afterturn.exits import CommandError, Exit
from afterturn.invocation import Invocation
from producers import HandleError, OutputNotFound

Handle = Annotated[
    str, typer.Argument(metavar="HANDLE", help="As it stands at the end of a note: out-12-345.")
]


def output(context: typer.Context, handle: Handle, as_json: AsJson = False) -> None:
    """Print the tool output or the arguments that a note in the context stands for."""
    console = Console(as_json=as_json)
    with Invocation.of(context).gateway() as gateway:
        try:
            found = gateway.fetch_output(handle)
        except HandleError as error:
            raise CommandError(str(error), Exit.USAGE) from None
        except OutputNotFound as error:
            message = f"{error}; --owner names another owner"
            raise CommandError(message, Exit.NOT_FOUND) from None
    if as_json:
        console.document(
            {
                "handle": found.handle,
                "session": found.session_id,
                "position": found.position,
                "pruned": found.pruned,
                "text": found.text,
                "message": found.message,
            }
        )
        return
    if console.results.is_terminal:
        console.show(plain(found.text))
    else:
        # For a program or a file: as it was stored.
        console.text(f"{found.text}\n")
