"""Two runs beside each other: as drawn."""
