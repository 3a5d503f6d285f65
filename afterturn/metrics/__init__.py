"""Figures for Prometheus, from the database, the broker and workers."""
