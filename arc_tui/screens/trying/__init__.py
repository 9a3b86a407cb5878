"""An edit tried on many runs: the screen and what it does."""
