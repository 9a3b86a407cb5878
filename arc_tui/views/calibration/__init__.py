"""How right the judgements are: as values."""
