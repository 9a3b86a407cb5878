"""One run: as values."""
