"""The batch job: summarise the middle of a conversation."""
