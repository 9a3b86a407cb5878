"""At which step belief left the world: the screen and what it does."""
