"""What the exit codes of `arc` mean: 0 answered, 1 the answer is no, and these. `arc replay
--expect` alone has codes of its own, those that `git bisect run` reads.
"""

USER_ERROR = 2
"""Said wrongly, bad input, or not finished."""

BUG = 3
"""A fault of `arc` itself."""

INTERRUPTED = 130
"""Stopped by the person at the keyboard."""
