"""Two causes told apart by one change: the screen and what it does."""
