"""The model asked again at every recorded step: as values."""
