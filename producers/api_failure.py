"""What a gateway does about an error of its model's provider (ENGINE.md §9, rows 6 to 9)."""

from __future__ import annotations

from dataclasses import dataclass

from producers.compaction import Compaction, CompressionStuck, Status
from producers.measure import measure
from producers.passes import Passes, nothing_done
from producers.waiting import Patience
from storage import sessions
from workers.provider_errors.errors import ApiError, ApiErrorKind, recognise_error
from workers.triggers import Trigger

LONG_CONTEXT_WINDOW = 200_000
"""The window in tokens of an account that may not use a longer one (ENGINE.md §9, row 7)."""


@dataclass(frozen=True, slots=True)
class ErrorVerdict:
    """What an error means for the session, and whether to send the request again.

    `recognised` is False for an error that a smaller session does not answer, such as a wrong
    argument or a plain rate limit: then nothing was made due and the error is the gateway's own.
    `retry` is True when the view has become smaller, or when less output is all that is needed:
    load the context anew, ask for at most `max_output` tokens where that is given, and send.
    `window` is what the session's requests may hold from now on.
    """

    recognised: bool
    kind: ApiErrorKind | None
    retry: bool
    max_output: int | None
    window: int
    compaction: Compaction

    @property
    def pending(self) -> bool:
        """Whether a pass is still to come: report the error again and wait to learn of it."""
        return self.compaction.pending

    @property
    def reason(self) -> str:
        """What was done or why not, in words for a log."""
        if not self.recognised:
            return "no error that a smaller session answers"
        return self.compaction.reason


def judge(passes: Passes, key: int, error: object, patience: Patience) -> ErrorVerdict:
    """Recognise an error, note what it tells of the window, and have the session compacted.

    Raises `CompressionStuck` to a caller who waited for a pass that left nearly all of a session
    that does not fit its window still.
    """
    found = recognise_error(error)
    if found is None:
        with passes.database.read() as connection:
            record = sessions.fetch(connection, key)
        done = nothing_done(record, Status.NOT_NEEDED)
        window = measure(record, passes.settings).window
        return ErrorVerdict(False, None, False, None, window, done)
    trigger = Trigger(found.kind.value)
    with passes.database.write() as connection:
        record = sessions.lock(connection, key)
        if (limit := _limit(found)) is not None:
            record = sessions.declare_window(connection, key, limit)
        if found.smaller_prompt_helps:
            asked = passes.join_or_ask(connection, record, trigger)
        else:
            asked = nothing_done(record, Status.NOT_NEEDED, trigger)
    done = passes.outcome(asked, patience)
    with passes.database.read() as connection:
        size = measure(sessions.fetch(connection, key), passes.settings)
    if done.stuck and patience.granted and not size.fits:
        raise CompressionStuck(record.id, size.tokens, size.threshold, done)
    return ErrorVerdict(
        recognised=True,
        kind=found.kind,
        retry=done.smaller or found.output_room is not None,
        max_output=found.output_room,
        window=size.window,
        compaction=done,
    )


def _limit(found: ApiError) -> int | None:
    if found.kind is ApiErrorKind.LONG_CONTEXT_RATE_LIMIT:
        return LONG_CONTEXT_WINDOW
    return found.stated_limit
