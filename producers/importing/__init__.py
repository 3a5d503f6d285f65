"""Import of sessions from elsewhere: chat transcripts, and the sessions of Hermes Agent."""

from producers.importing.admission import Terms
from producers.importing.run import ImportProgress, import_file
from producers.importing.source import Account, Fate, ImportProblem, ImportRefused
from producers.importing.transcripts import Format, recognise

__all__ = [
    "Account",
    "Fate",
    "Format",
    "ImportProblem",
    "ImportProgress",
    "ImportRefused",
    "Terms",
    "import_file",
    "recognise",
]
