"""The list of runs: the screen and what it does."""
