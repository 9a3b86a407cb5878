"""What refers is no secret: digests, and ids of traces, in texts that we wrote ourselves.

A pattern of a person, six digits say, may well match inside one of them; masked, nothing that it
refers to is found again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from replay.trace import Json

REFERENCE = re.compile(r"((?:sha256:)?\b[0-9a-f]{64}\b|\b[0-9a-f]{16}\b)")

_ID = 16
"""Letters of the id of a trace."""


def refers(text: str, is_trace: Callable[[str], bool]) -> bool:
    """Is it, as a whole, a digest or the id of a trace?"""
    return REFERENCE.fullmatch(text) is not None and (len(text) > _ID or is_trace(text))


def restored(before: Json, after: Json, is_trace: Callable[[str], bool]) -> Json:
    """What was masked, its references as they were; the same as before where that is all."""
    if before is after or (isinstance(before, str) and refers(before, is_trace)):
        return before
    if isinstance(before, dict) and isinstance(after, dict):
        both = zip(before.items(), after.items(), strict=True)
        held = [
            (restored(*names, is_trace), restored(*values, is_trace))
            for names, values in (zip(*each, strict=True) for each in both)
        ]
        return before if held == list(before.items()) else dict(held)
    if isinstance(before, list) and isinstance(after, list):
        listed = [restored(*pair, is_trace) for pair in zip(before, after, strict=True)]
        return before if listed == before else listed
    return after
