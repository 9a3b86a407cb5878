"""Which version, hunk or step did it? Asked of the model, a round at a time."""
