"""Rules that decide: triggers, guards, thresholds, calibration and what follows a failure."""
