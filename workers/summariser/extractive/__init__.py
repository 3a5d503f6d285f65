"""Summaries made by rules, without a model: the local summariser and the placeholder."""
