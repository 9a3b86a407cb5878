"""Which version or hunk broke a run: as values."""
