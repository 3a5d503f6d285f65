"""Settings that are checked already but that nothing reads in this version.

They belong to pruning. A list kept here, not a mark at each setting, goes away with
the last of them.
"""

from __future__ import annotations

WITHOUT_EFFECT = frozenset(
    f"compression.{name}"
    for name in (
        "proactive_prune_min_reclaim_tokens",
        "proactive_prune_min_result_chars",
        "proactive_prune_tokens",
    )
)
