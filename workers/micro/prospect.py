"""How much a session may grow before a micro pass can have something to absorb, by sums alone.

A turn mostly makes nothing due. What was worked out after one turn is kept with the session, as a
mark that its live tokens must reach before anybody asks again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from storage.prospects import Prospect
from storage.rows import Row
from storage.sessions import SessionRecord
from workers.limits import region_rules, session_threshold
from workers.marker import frame_tokens
from workers.regions import SOFT_CEILING
from workers.settings import CompressionSettings
from workers.threshold import NoUsableWindowError

_ENDLESS = 10**12
_IN_DOUBT = 0
_FORM = 1
"""Of a mark. Raise it where a pass may become due earlier than by the rules before."""


def tokens_until_due(
    prospect: Prospect, session: SessionRecord, settings: CompressionSettings
) -> int:
    """How many tokens the session has to grow by before there can be a pass to make; 0 where there
    may be one now, which is no answer.

    `prospect` is for `micro_compact_min_tokens`. What stands behind a row keeps it in the tail
    where it neither fills the tail's budget nor holds a row that the tail might end at for its
    size (ENGINE.md §5). So there is no pass where that keeps the row there with which the agent's
    rows become enough, and none where it keeps the last row of that one's turn there, since only
    a turn that is larger than the tail is absorbed in part. A rolling summary that would have to
    be rewritten is work of its own (§7).
    """
    enough = settings.micro_compact_min_tokens
    mark = settings.micro_compact_defrag_threshold_tokens
    budget = _tail_budget(session, settings)
    if budget is None:
        return _ENDLESS
    if enough <= 0 or prospect.marker - frame_tokens() > mark:
        return 0
    # A row that is added may be as large as all that is added.
    small = int((SOFT_CEILING - 1) * budget) + 1
    missing = enough - prospect.agent
    if missing > 0:
        return max(missing, min(missing + budget, small))
    if prospect.largest >= small:
        return 0
    grows = min(budget - prospect.behind, small)
    until_the_turn_ends = prospect.ahead - prospect.later
    if until_the_turn_ends <= budget:
        # The turn may still be going on.
        rest = small if prospect.later else budget - until_the_turn_ends + 1
        grows = max(grows, min(budget - prospect.later, rest, small))
    return max(grows, 0)


def prospect_of(rows: Iterable[Row], *, cursor: int, enough: int) -> Prospect:
    """The same sums as `read_prospects`, but for the marker's, of a live view that is known."""
    agent = ahead = behind = later = largest = 0
    is_later = False
    for row in rows:
        if row.position < cursor:
            continue
        ahead += row.tokens
        if agent >= enough:
            behind += row.tokens
            is_later |= row.opens_turn
        if is_later:
            later += row.tokens
        if row.is_of_agent:
            agent += row.tokens
        if agent >= enough:
            largest = max(largest, row.tokens)
    return Prospect(agent, ahead, behind, later, largest)


def mark_of(session: SessionRecord, settings: CompressionSettings, grows: int) -> str:
    """The mark of a session that may grow by so many tokens: JSON of the live tokens that it must
    reach, and of what that holds for."""
    return json.dumps([session.live_tokens + grows, *_holds_for(session, settings)])


def mark_of_doubt(session: SessionRecord, settings: CompressionSettings) -> str:
    """The mark of a session in which a pass found nothing, though sums did not rule it out."""
    return json.dumps([_IN_DOUBT, *_holds_for(session, settings)])


def is_below_mark(session: SessionRecord, settings: CompressionSettings) -> bool:
    """Whether the session's mark says that there is certainly no pass to make.

    It holds while rows were only added, and where the cursor moved on: all else makes the revision
    grow.
    """
    at = _mark(session, settings)
    return at is not None and session.live_tokens < at


def is_in_doubt(session: SessionRecord) -> bool:
    """Whether only a look at the rows can tell if there is a pass to make (`mark_of_doubt`).

    Where sums rule nothing out there mostly is one, and the pass looks at the rows anyway. Where it
    has found nothing, the next turns would make a job for nothing each, whatever has changed in
    between, until sums rule a pass out again or one leaves a mark.
    """
    return session.micro_mark is not None and json.loads(session.micro_mark)[0] == _IN_DOUBT


def _mark(session: SessionRecord, settings: CompressionSettings) -> int | None:
    if session.micro_mark is None:
        return None
    at, *holds_for = json.loads(session.micro_mark)
    return int(at) if holds_for == _holds_for(session, settings) else None


def _holds_for(session: SessionRecord, settings: CompressionSettings) -> list[int | None]:
    return [
        _FORM,
        session.revision,
        settings.micro_compact_min_tokens,
        settings.micro_compact_defrag_threshold_tokens,
        _tail_budget(session, settings),
    ]


def _tail_budget(session: SessionRecord, settings: CompressionSettings) -> int | None:
    """None where the session has no window to speak of, which makes no pass due."""
    try:
        return region_rules(session_threshold(session, settings), settings).tail_budget
    except NoUsableWindowError:
        return None
