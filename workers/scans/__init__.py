"""Scans of the whole database for work that is due: run by the schedule, by any worker."""
