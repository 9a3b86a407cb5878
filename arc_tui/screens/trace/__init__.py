"""One run: the screen and what it does."""
