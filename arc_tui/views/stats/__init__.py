"""The figures of runs: as values."""
