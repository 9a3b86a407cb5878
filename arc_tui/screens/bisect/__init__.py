"""Which version or hunk broke a run: the screen and what it does."""
