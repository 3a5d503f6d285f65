"""`afterturn compact`: look at what a pass would do, have it done here, tell what came of it."""
