"""Times as Inspect writes them, read fast: a log has three a second and hardly a minute of them.

`normal.ns` reads any ISO 8601 text; what is done here is to ask it once a minute.
"""

from __future__ import annotations

from functools import lru_cache

from replay.formats import normal
from replay.trace import Json

_LENGTH = len("2026-01-02T03:04:05.123456+00:00")
_ZONE = slice(26, None)
_LAST_NS = 2**62
"""No minute near the end of what a database column holds is trusted to end before it."""
_MINUTE, _SECOND, _MICROSECOND = slice(0, 16), slice(17, 19), slice(20, 26)


def ns(time: Json) -> int | None:
    """Nanoseconds since the epoch, None for what is no time."""
    if not isinstance(time, str):
        return None
    if len(time) != _LENGTH or time[16] != ":" or time[19] != ".":
        return normal.ns(time)
    second, micro = time[_SECOND], time[_MICROSECOND]
    if not (time.isascii() and second.isdecimal() and micro.isdecimal()) or second > "59":
        return normal.ns(time)
    begun = _minute_ns(time[_MINUTE], time[_ZONE])
    if begun is None or begun > _LAST_NS:
        return normal.ns(time)
    return begun + int(second) * 10**9 + int(micro) * 1000


@lru_cache(maxsize=4096)
def _minute_ns(minute: str, zone: str) -> int | None:
    return normal.ns(f"{minute}:00{zone}")
