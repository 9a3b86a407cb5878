"""Two causes told apart by one change: as values."""
