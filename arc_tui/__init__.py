"""`arc`: the commands and the app over `replay` (tapes) and `taxonomy` (judgements)."""

__version__ = "0.1.0"
