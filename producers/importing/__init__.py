"""Bring in sessions from elsewhere: chat transcripts, and what Hermes Agent has stored."""

from producers.importing.account import Account, Fate, Problem
from producers.importing.admission import Terms
from producers.importing.files import Format, ImportRefused, recognise
from producers.importing.run import Told, import_file

__all__ = [
    "Account",
    "Fate",
    "Format",
    "ImportRefused",
    "Problem",
    "Terms",
    "Told",
    "import_file",
    "recognise",
]
