"""A long real conversation, played through the embedded stack and checked against itself."""
