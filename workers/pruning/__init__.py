"""Shortening old tool output without a model (ENGINE.md §8)."""
