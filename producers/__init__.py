"""What a gateway imports: finish turns, load the context, compact, take back, hear of signals."""

from producers.api_failure import ErrorVerdict
from producers.arguments import RequestError
from producers.compaction import Compaction, CompressionStuck, Status
from producers.context import Context
from producers.doorbell import Doorbell
from producers.gateway import Gateway
from producers.identifiers import IdentifierError
from producers.outputs import Output, OutputNotFound
from producers.preflight import Preflight
from producers.recall import SESSION_SEARCH_TOOL, Recall
from producers.receipt import Receipt
from producers.rewinding import RewindError
from producers.session import Session
from producers.usage import Usage, UsageError
from producers.windows import WindowError
from storage.errors import (
    DatabaseUnavailable,
    EventConflict,
    SessionClash,
    SessionNotFound,
    StorageError,
)
from storage.messages import Amount
from storage.rows import Origin
from storage.search import SearchMarkError
from storage.signals import Signal, SignalKind
from storage.undo import Rewound, Undone
from workers.holds import Hold
from workers.messages import MessageError
from workers.provider_errors.errors import ApiErrorKind
from workers.pruning.handles import HandleError
from workers.rendering import Dialect

__all__ = [
    "SESSION_SEARCH_TOOL",
    "Amount",
    "ApiErrorKind",
    "Compaction",
    "CompressionStuck",
    "Context",
    "DatabaseUnavailable",
    "Dialect",
    "Doorbell",
    "ErrorVerdict",
    "EventConflict",
    "Gateway",
    "HandleError",
    "Hold",
    "IdentifierError",
    "MessageError",
    "Origin",
    "Output",
    "OutputNotFound",
    "Preflight",
    "Recall",
    "Receipt",
    "RequestError",
    "RewindError",
    "Rewound",
    "SearchMarkError",
    "Session",
    "SessionClash",
    "SessionNotFound",
    "Signal",
    "SignalKind",
    "Status",
    "StorageError",
    "Undone",
    "Usage",
    "UsageError",
    "WindowError",
]
