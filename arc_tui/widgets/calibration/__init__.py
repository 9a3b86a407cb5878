"""How right the judgements are: as drawn."""
