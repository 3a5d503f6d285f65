"""The beat schedule: what runs by the clock."""
