"""What workers do: the pure rules of compaction, the jobs that use them, the summariser."""
