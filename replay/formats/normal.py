"""Source words turned into ours: stop reasons, times, token counts, ids.

Every importer uses these tables, so a word means the same wherever it was read.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any

from replay.trace import Cost, Json, Stop, Usage

_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "stop": "end",
    "submitted": "end",
    "tool_use": "tool",
    "tool_calls": "tool",
    "tool_call": "tool",
    "function_call": "tool",
    "max_tokens": "length",
    "length": "length",
    "model_length": "context",
    "model_context_window_exceeded": "context",
    "context_window_exceeded": "context",
    "refusal": "filter",
    "content_filter": "filter",
    "pause_turn": "pause",
    "compaction": "compaction",
    "error": "error",
    "unknown": "error",
}

MOST_NS = 2**63 - 1
"""The largest number that a database column holds; what lies beyond is no time."""

MOST_TOKENS = 2**40
"""Far more than any call has, and those of a database can still be summed."""

MOST_USD = 1e9
MOST_NUMBER = 1e300
"""What lies beyond cannot be summed as floats are; a whole number may be of any length."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d+))?\s*(Z|[+-]\d\d:?\d\d)?$")


def stop(raw: Json) -> Stop | None:
    """The normalised stop reason of a source's word (`formats.md` §0.4), None where unknown."""
    return _STOPS.get(str(raw).lower()) if raw else None


def ns(time: Json) -> int | None:
    """Nanoseconds since the epoch of an ISO 8601 text (naive means UTC), None where it is none.

    Works in integers throughout: a float cannot hold a nanosecond of this century.
    """
    found = _TIME.match(time.strip()) if isinstance(time, str) else None
    if found is None:
        return None
    seconds, fraction, zone = found.groups()
    zone = "+00:00" if zone in (None, "Z") else zone
    try:
        moment = datetime.fromisoformat(seconds.replace(" ", "T") + zone)
    except ValueError:
        return None
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    whole = delta.days * 86_400 + delta.seconds
    moment_ns = whole * 1_000_000_000 + int((fraction or "0").ljust(9, "0")[:9])
    return moment_ns if abs(moment_ns) <= MOST_NS else None


def seconds_ns(seconds: Json) -> int | None:
    """Nanoseconds of a number of seconds, to the microsecond a float can still hold."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    return round(seconds * 1_000_000) * 1000 if abs(seconds) <= MOST_NS // 10**9 else None


def count(value: Json) -> int | None:
    """A token count: a non-negative integer (or a text or whole float of one), else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isdecimal():
        value = int(value) if len(value) < 20 else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else None


def number(value: Json) -> float | None:
    """A number as a float (a truth value is 1 or 0), None for what is none, not finite or larger
    than a float can bear."""
    if not isinstance(value, (int, float)) or not abs(value) <= MOST_NUMBER:
        return None
    return float(value)


def usd(value: Json) -> float | None:
    """An amount of money, None for what cannot be one."""
    found = None if isinstance(value, bool) else number(value)
    return found if found is not None and 0 <= found < MOST_USD else None


def recorded(amount: float | None) -> Cost | None:
    """The cost that a source gives itself, None where it gives none."""
    return None if amount is None else Cost(usd=amount, source="recorded")


def anthropic_usage(raw: Json) -> Usage | None:
    """Anthropic's figures, where `input_tokens` leaves the cache out: ours are the total.

    All-zero usage is what gateways write when they do not know: None.
    """
    if not isinstance(raw, dict):
        return None
    fresh, out = count(raw.get("input_tokens")), count(raw.get("output_tokens"))
    read = count(raw.get("cache_read_input_tokens"))
    write = count(raw.get("cache_creation_input_tokens"))
    if not any((fresh, out, read, write)):
        return None
    parts = raw.get("cache_creation")
    hourly = count(parts.get("ephemeral_1h_input_tokens")) if isinstance(parts, dict) else None
    details = raw.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (write or 0),
        output_tokens=out,
        reasoning_tokens=count(details.get("thinking_tokens"))
        if isinstance(details, dict)
        else None,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_1h_tokens=hourly,
    )


def total_usage(
    total: int | None,
    out: int | None,
    *,
    reasoning: int | None = None,
    read: int | None = None,
    write: int | None = None,
) -> Usage | None:
    """Usage of a source whose input count includes the cache; all unknown or zero gives None.

    Where the cache figures exceed the total, the source broke its own convention: the total is
    then taken as exclusive and they are added (`formats.md` §0.2).
    """
    if not any((total, out, read, write)):
        return None
    cached = (read or 0) + (write or 0)
    if total is not None and cached > total:
        total += cached
    return Usage(
        input_tokens=total,
        output_tokens=out,
        reasoning_tokens=reasoning,
        cache_read_tokens=read,
        cache_write_tokens=write,
    )


def derived_id(*parts: Any) -> str:
    """A span id for a source that has none: 16 hex digits of stable content."""
    text = "\x1f".join("" if part is None else str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
