"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from afterturn.telemetry import LogFormat

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="File with lines NAME:PASSWORD: who may look. Needed for other hosts."
    ),
]
TlsCertificate = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Certificate (PEM) to answer with, over TLS.")
]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key (PEM).")]
LogFormatOption = Annotated[
    LogFormat, typer.Option(help="text for people; json, one object a line, for programs.")
]
