"""`afterturn explain`: why a session is, or is not, compacted now."""
