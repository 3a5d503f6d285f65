"""Block `compression`: the rules of compaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from workers.settings.base import Allowed, Block, Seconds, Share, Tokens, UnitName

_YEAR = 31_536_000
_DAY = 86_400


class CompressionSettings(Block):
    """Every rule of compaction that an operator may change. The block is read again between jobs.

    See docs/reference/settings.md.
    """

    enabled: bool = Field(
        True,
        description="Main switch. false stops every automatic trigger, micro-compaction and "
        "pruning included; a person can still ask for compaction.",
    )
    progress_notices: bool = Field(
        False, description="Notify the user through signals when a compaction starts and ends."
    )

    threshold: Share = Field(
        0.50,
        description="Share of the usable window at which a conversation is compacted. Raised to "
        "0.75 for windows below 512,000 tokens, unless a key of model_thresholds matches.",
    )
    threshold_tokens: Annotated[int | None, UnitName("tokens")] = Field(
        None, ge=1000, le=10_000_000, description="Upper bound of the threshold; null for none."
    )
    model_thresholds: Mapping[Annotated[str, Field(min_length=1)], Share] = Field(
        default_factory=dict,
        description="Thresholds by model: a part of the model's name and a share. The longest "
        "part that matches wins, over the built-in ones too.",
    )
    target_ratio: float = Field(
        0.20,
        ge=0.05,
        le=0.80,
        description="Share of the threshold that is kept as the protected recent tail.",
    )
    protect_first_n: Annotated[int, UnitName("messages")] = Field(
        3,
        ge=0,
        le=100,
        description="Opening messages behind the system messages that are never compacted. The "
        "first request is protected even with 0.",
    )
    protect_last_n: Annotated[int, UnitName("messages")] = Field(
        20,
        ge=1,
        le=1000,
        description="Newest messages that are never compacted; fewer when they alone would fill "
        "the tail.",
    )
    min_tail_user_messages: Annotated[int, UnitName("messages")] = Field(
        1, ge=1, le=100, description="Newest user messages that always stay in the tail."
    )
    max_attempts: Annotated[int, UnitName("passes")] = Field(
        3, ge=1, le=10, description="Batch passes per turn before a request that is too large."
    )
    summary_attempts: Annotated[int, UnitName("calls")] = Field(
        3, ge=1, le=10, description="Calls per job before a summary counts as failed."
    )
    exhausted_after: Annotated[int, UnitName("jobs")] = Field(
        3,
        ge=1,
        le=100,
        description="Failed batch jobs in a row, with the window nearly full, after which the "
        "conversation is reset to head, last good summary and newest turn.",
    )
    in_place: Annotated[bool, Allowed("true (false is not available yet)")] = Field(
        True, description="Compact inside the session instead of going on in a new one."
    )
    abort_on_summary_failure: bool = Field(
        False,
        description="Leave the session unchanged when no summary can be had, instead of a "
        "placeholder that is made without a model and replaced later.",
    )
    verbatim_user_tokens: Tokens = Field(
        2000,
        ge=0,
        le=50_000,
        description="Room in a batch summary for covered user messages word for word; 0 for none.",
    )

    micro_compact: bool = Field(
        True, description="Absorb old exchanges into a rolling summary after each turn."
    )
    micro_compact_every_n_turns: Annotated[
        int, Allowed("integer up to 1000; below 1 counts as 1"), UnitName("turns")
    ] = Field(
        1,
        le=1000,
        description="Completed turns between two passes. More turns, fewer rewrites of the "
        "provider's prompt cache, larger live context.",
    )
    micro_compact_min_tokens: Tokens = Field(
        1000,
        ge=0,
        le=1_000_000,
        description="Least size of what one pass absorbs; 0 for always one exchange.",
    )
    micro_compact_defrag_threshold_tokens: Tokens = Field(
        2000,
        ge=1,
        le=1_000_000,
        description="Size of the rolling summary above which it is rewritten shorter.",
    )

    proactive_prune_tokens: Tokens = Field(
        0,
        ge=0,
        le=10_000_000,
        description="Live size at which old tool output is shortened without a model, even below "
        "the threshold; 0 for never.",
    )
    proactive_prune_min_result_chars: Annotated[int, UnitName("characters")] = Field(
        8000, ge=200, le=10_000_000, description="Tool results above this size are shortened."
    )
    proactive_prune_min_reclaim_tokens: Tokens = Field(
        4096, ge=0, le=10_000_000, description="A pruning pass that would free less does nothing."
    )

    proactive_prune_exempt_tools: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
        Allowed("list of names of tools; * stands for anything"),
    ] = Field(
        ("skill*", "memory*", "todo*", "clarify*"),
        description="Tools whose output and arguments are never shortened, such as those that "
        "give instructions.",
        strict=False,
    )
    proactive_prune_tool_forms: Mapping[
        Annotated[str, Field(min_length=1, max_length=200)],
        Literal[
            "shell",
            "read",
            "write",
            "patch",
            "search",
            "browser",
            "web",
            "code",
            "delegation",
            "other",
        ],
    ] = Field(
        default_factory=dict,
        description="Kinds of your own tools by name (* stands for anything); the kind decides the "
        "line that replaces their output. Built-in names are known.",
    )

    idle_compact_after_seconds: Seconds = Field(
        0, ge=0, le=_YEAR, description="Compact a session that was idle this long; 0 for never."
    )

    hygiene_hard_message_limit: Annotated[int, UnitName("messages")] = Field(
        5000,
        ge=10,
        le=1_000_000,
        description="Live messages at which a session is compacted regardless of any guard.",
    )
    hygiene_timeout_seconds: Seconds = Field(
        30,
        ge=0.1,
        le=3600,
        description="Silence of the summariser that counts as a timeout in hygiene passes.",
    )
    hygiene_total_ceiling_seconds: Seconds = Field(
        600, ge=0.1, le=_DAY, description="Longest model call in hygiene passes."
    )
    hygiene_failure_cooldown_seconds: Seconds = Field(
        300, ge=0, le=_DAY, description="Rest after a failed hygiene pass; 0 for none."
    )
    failure_cooldown_seconds: Seconds = Field(
        600,
        ge=0,
        le=_DAY,
        description="Rest of a session's automatic passes after its last failed attempt; 0 for "
        "none.",
    )

    codex_app_server_auto: Literal["native", "hermes", "off"] = Field(
        "native",
        description="Threads that a Codex app server owns: native leaves compaction to Codex, "
        "hermes signals the gateway to ask for it, off does nothing.",
    )
    codex_responses_native: bool = Field(
        False,
        description="Let OpenAI compact on its side where the model can; ours is the backstop.",
    )
    codex_responses_compact_threshold: Annotated[int | None, UnitName("tokens")] = Field(
        None,
        ge=1000,
        le=10_000_000,
        description="Threshold sent to OpenAI for that; null for 8,192 tokens below ours.",
    )

    context_timeout_seconds: Seconds = Field(
        120,
        ge=0.1,
        le=3600,
        description="Silence of the summariser, once it has begun to answer, that counts as a "
        "timeout.",
    )
    context_total_ceiling_seconds: Seconds = Field(
        600, ge=0.1, le=_DAY, description="Longest model call."
    )

    @field_validator("in_place")
    @classmethod
    def _only_in_place(cls, value: bool) -> bool:
        if not value:
            raise ValueError(
                "going on in a new session is not available yet; leave the key out or set true"
            )
        return value

    @field_validator("micro_compact_every_n_turns")
    @classmethod
    def _at_least_every_turn(cls, value: int) -> int:
        return max(value, 1)

    @field_validator("codex_app_server_auto", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: Any) -> Any:
        # YAML 1.1 reads a bare `off` as false.
        return "off" if value is False else value
