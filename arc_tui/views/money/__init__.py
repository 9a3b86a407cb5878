"""What a run spent: as values."""
