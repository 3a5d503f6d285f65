"""Micro-compaction: fold the oldest exchanges into the rolling summary (ENGINE.md §7)."""
