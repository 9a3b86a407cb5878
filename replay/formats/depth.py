"""Is a foreign value nested deeper than those who read it, by recursion, can bear?"""

from __future__ import annotations

from replay.trace import Json

MAX_DEPTH = 100
"""Far more than any message has; readers of messages use a few frames a level."""


def is_deep(content: Json) -> bool:
    """Is this nested deeper than those who read it, by recursion, can bear?"""
    level = [content]
    for _ in range(MAX_DEPTH):
        inner: list[Json] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if not inner:
            return False
        level = inner
    return True
