"""What kind of failure a step is, and whose doing: as drawn."""
