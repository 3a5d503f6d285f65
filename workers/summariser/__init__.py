"""Summarisers: models behind OpenAI-compatible URLs, and the built-in one.

Nothing is imported here, so that importing the package does not load `openai`.
"""
