"""`afterturn recompact`: estimate what a run takes, watch it, tell what came of it."""
