"""Micro-compaction: absorb the oldest exchanges into the rolling summary."""
