"""Memory that was freed, given back to the system.

Long texts that were read stand between what was made of them: when they are freed, the allocator of
Linux (glibc) keeps their places for others. A process that reads a long run and then works on it
would hold the size of the run twice.
"""

from __future__ import annotations

import sys

LARGE_BYTES = 32 * 1024 * 1024
"""Giving back less is not worth the milliseconds it takes."""


def give_back() -> None:
    """Give the system what is free here; nothing is done where the allocator is not glibc's."""
    if sys.platform != "linux":
        return
    import ctypes  # only who reads a long run needs it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
