"""The list of runs: as values."""
