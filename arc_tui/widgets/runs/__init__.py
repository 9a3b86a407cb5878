"""The list of runs: as drawn."""
