"""Import sessions from elsewhere: chat transcripts, and what Hermes Agent has stored."""

from producers.importing.admission import Terms
from producers.importing.run import Progress, import_file
from producers.importing.source import Account, Fate, ImportRefused, Problem
from producers.importing.transcripts import Format, recognise

__all__ = [
    "Account",
    "Fate",
    "Format",
    "ImportRefused",
    "Problem",
    "Progress",
    "Terms",
    "import_file",
    "recognise",
]
