"""Why runs fail: as drawn."""
