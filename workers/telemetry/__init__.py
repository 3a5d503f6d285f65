"""Log lines, spans, and counts of attempts for the metrics."""
