"""Checks of a deployment: what is wrong, and what to do about it."""
