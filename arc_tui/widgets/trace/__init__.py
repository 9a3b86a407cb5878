"""One run: as drawn."""
