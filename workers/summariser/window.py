"""How much of a conversation fits into one request to a model with a small window."""

from __future__ import annotations

INPUT_CHARS = 160_000
"""Characters of passages in one request (ENGINE.md §6.3)."""

CHARS_PER_TOKEN = 3
"""JSON and ids are denser than prose (ENGINE.md §3)."""

INSTRUCTION_TOKENS = 3_000
"""The prompt's own text, and the user's question cut to 6,000 characters."""


def input_chars(context_length: int | None, summary_tokens: int) -> int:
    """Characters of passages that one request may hold; `context_length` None is a large window.

    Instructions, the previous summary and the answer share the window with the passages (faults
    F081). Both summaries are reserved at `summary_tokens`. The passages keep a quarter of a
    window too small for that, since a request must hold something.
    """
    if context_length is None:
        return INPUT_CHARS
    room = context_length - INSTRUCTION_TOKENS - 2 * summary_tokens
    return min(INPUT_CHARS, max(room, context_length // 4) * CHARS_PER_TOKEN)
