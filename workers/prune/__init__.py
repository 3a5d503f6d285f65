"""Pruning: shorten old tool output without a model. See docs/explanation/pruning.md."""
