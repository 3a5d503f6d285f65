"""Whether sums alone tell that a micro pass has nothing to absorb."""

from __future__ import annotations

from storage.prospects import Prospect
from storage.sessions import SessionRecord
from workers.compression_settings import CompressionSettings
from workers.limits import region_rules, session_threshold
from workers.marker import frame_tokens
from workers.regions import SOFT_CEILING
from workers.threshold import NoUsableWindowError


def is_ruled_out(prospect: Prospect, session: SessionRecord, settings: CompressionSettings) -> bool:
    """Whether there is certainly no pass to make; False is no answer.

    `prospect` is for `micro_compact_min_tokens`. What stands behind a row keeps it in the tail
    where it neither fills the tail's budget nor holds a row that the tail might end at for its
    size (ENGINE.md §5). So there is no pass where that keeps the row there with which the agent's
    rows become enough, and none where it keeps the last row of that one's turn there, since only
    a turn that is larger than the tail is absorbed in part. A rolling summary that would have to
    be rewritten is work of its own (§7).
    """
    enough = settings.micro_compact_min_tokens
    mark = settings.micro_compact_defrag_threshold_tokens
    if enough <= 0 or prospect.marker - frame_tokens() > mark:
        return False
    if prospect.agent < enough:
        return True
    try:
        rules = region_rules(session_threshold(session, settings), settings)
    except NoUsableWindowError:
        return True
    budget = rules.tail_budget
    if prospect.largest > (SOFT_CEILING - 1) * budget:
        return False
    until_the_turn_ends = prospect.ahead - prospect.later
    return prospect.behind < budget or (prospect.later < budget >= until_the_turn_ends)
