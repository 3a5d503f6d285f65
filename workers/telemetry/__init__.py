"""Log lines, spans, and counts of attempts."""
