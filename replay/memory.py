"""Memory that was freed, given back to the system.

Long texts that were read stand between what was made of them: when they are freed, Linux's
allocator keeps their places for others. A process that reads a long run and then works on it would
hold the size of the run twice.
"""

from __future__ import annotations

import sys

LARGE_BYTES = 32 * 1024 * 1024
"""So much is worth to be given back: it takes some milliseconds."""


def give_back() -> None:
    """Give the system what is free here. Other systems than Linux do so by themselves."""
    if sys.platform != "linux":
        return
    import ctypes  # only who reads a long run needs it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # musl has none
        trim(0)
