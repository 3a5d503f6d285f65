"""The batch job: summarise the middle of a conversation (ENGINE.md §6)."""
