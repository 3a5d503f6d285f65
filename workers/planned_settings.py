"""Settings that are checked already but that nothing reads in this version.

They belong to batch summarisation, pruning, idle work and server-side compaction. A list kept
here, not a mark at each setting, goes away with the last of them.
"""

from __future__ import annotations

WITHOUT_EFFECT = frozenset(
    f"compression.{name}"
    for name in (
        "abort_on_summary_failure",
        "codex_app_server_auto",
        "codex_responses_compact_threshold",
        "codex_responses_native",
        "exhausted_after",
        "failure_cooldown_seconds",
        "hygiene_failure_cooldown_seconds",
        "hygiene_hard_message_limit",
        "hygiene_timeout_seconds",
        "hygiene_total_ceiling_seconds",
        "idle_compact_after_seconds",
        "max_attempts",
        "proactive_prune_min_reclaim_tokens",
        "proactive_prune_min_result_chars",
        "proactive_prune_tokens",
        "progress_notices",
        "summary_attempts",
        "verbatim_user_tokens",
    )
)
