"""An edit tried on many runs: as values."""
