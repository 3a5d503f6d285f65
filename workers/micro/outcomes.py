"""What became of a micro pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from storage.jobs import DueJob
from workers.summariser.contract import ErrorClass


@dataclass(frozen=True, slots=True)
class Absorbed:
    """Rows were folded into the rolling summary; tokens are those of the live view.

    Where too little was left for another pass, the job was closed with this one, and `due` is what
    to ring for now; else it is None.
    """

    rows: int
    tokens_before: int
    tokens_after: int
    due: tuple[DueJob, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Defragmented:
    """The rolling summary was rewritten shorter."""

    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class DefragRejected:
    """The rewrite was not small enough; the next one is due at `mark` tokens only."""

    mark: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """An exchange was answered badly three times: the cursor is past it, its rows stay live."""

    error_class: ErrorClass


@dataclass(frozen=True, slots=True)
class Failed:
    """No usable answer came; the job is due again after `delay_ms`.

    `model` was asked; `detail` says what happened in a few words, without any text of ours.
    """

    error_class: ErrorClass
    delay_ms: int
    model: str = field(default="", compare=False)
    detail: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Stale:
    """The session was changed (undo, rewind, model) between plan and commit; nothing was done."""


@dataclass(frozen=True, slots=True)
class NothingLeft:
    """No further pass can be made now."""

    reason: str


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The worker stops or lost the job; somebody else goes on."""


PassOutcome = (
    Absorbed | Defragmented | DefragRejected | Skipped | Failed | Stale | NothingLeft | HandedBack
)
