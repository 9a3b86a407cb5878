"""The model asked again at every recorded step: the screen and what it does."""
