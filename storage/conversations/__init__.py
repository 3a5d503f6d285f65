"""What was said: sessions, messages, summaries, cursors and events."""
