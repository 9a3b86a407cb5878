"""An edited agent running on, answered by the tape: the screen and what it does."""
