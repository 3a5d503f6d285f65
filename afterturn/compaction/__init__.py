"""The logic of `compact` and `recompact`: preview, estimate, work here, watch, read the result."""
