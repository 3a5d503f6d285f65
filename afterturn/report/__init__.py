"""`afterturn report`: what compaction saved, and what it cost."""
