"""At which step belief left the world: as drawn."""
