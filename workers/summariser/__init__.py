"""Whatever writes summaries: a model behind an OpenAI-compatible URL, or the built-in one.

Nothing is imported here, so that naming the package does not load `openai`.
"""
