"""What a run spent: as drawn."""
