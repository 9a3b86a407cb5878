"""Why runs fail: as values."""
