"""An edited agent running on, answered by the tape: as drawn."""
