"""The schedule: beat, and a clock for processes without one."""
