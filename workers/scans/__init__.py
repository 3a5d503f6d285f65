"""Scans of the whole database for due work; any worker runs them on schedule."""
