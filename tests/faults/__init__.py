"""What is promised about loss and leaks, and how far it was put to the test.

`python -m tests.faults` runs every trial and prints one table; `-m slow` tests run the same trials
with the same numbers, the everyday tests a few of each.
"""

from __future__ import annotations

from msgspec import Struct


class Row(Struct, frozen=True, kw_only=True):
    """One promise, what was done to break it, and the figure reached, as words for the table."""

    promise: str
    trial: str
    figure: str
    kept: bool
