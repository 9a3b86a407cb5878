"""Tokens and money of an observation.

Langfuse's own integrations count each part of the input beside the others, so the parts add up to
the total; what came through OpenTelemetry keeps the cache within the input. The total tells which.
"""

from __future__ import annotations

from typing import Any

from replay.formats.fields import obj
from replay.formats.normal import count
from replay.formats.services.figures import counted
from replay.formats.services.records import readable, usd
from replay.trace import Json


def usage(row: dict[str, Any]) -> dict[str, Json]:
    """Counts under the names of the conventions, {} where there are none."""
    details = _details(row)
    total_in, total_out = details.get("input"), details.get("output")
    if total_in is None and total_out is None:
        return {}
    beside_in = _sum(details, "input", "cache_")
    beside_out = _sum(details, "output")
    whole = details.get("total")
    if whole is None or whole != (total_in or 0) + (total_out or 0):
        total_in = total_in + beside_in if total_in is not None else beside_in or None
        total_out = total_out + beside_out if total_out is not None else beside_out or None
    return counted(
        total_in,
        total_out,
        read=_named(details, "cache", without=("creation", "write")),
        write=_named(details, "creation"),
        write_1h=_named(details, "creation_1h"),
        reasoning=_named(details, "reasoning"),
    )


def cost(row: dict[str, Any]) -> float | None:
    """What the call cost; zero is what Langfuse says where it has no price."""
    details = obj(readable(row.get("costDetails")))
    found = usd(details.get("total"))
    if found is None:
        names = ("totalCost", "calculatedTotalCost")
        found = next((each for name in names if (each := usd(row.get(name)))), None)
    return found or None


def _details(row: dict[str, Any]) -> dict[str, int]:
    """The counts by name: of today, of the older fields, or of the oldest."""
    found = {
        n: c
        for n, v in obj(readable(row.get("usageDetails"))).items()
        if (c := count(v)) is not None
    }
    if found:
        return found
    older = obj(readable(row.get("usage")))
    for name, others in _OLDER.items():
        values = (count(place.get(other)) for place in (older, row) for other in others)
        value = next((each for each in values if each), None)
        if value is not None:
            found[name] = value
    return found


_OLDER = {
    "input": ("input", "inputUsage", "promptTokens", "inputTokens"),
    "output": ("output", "outputUsage", "completionTokens", "outputTokens"),
    "total": ("total", "totalUsage", "totalTokens"),
}


def _sum(details: dict[str, int], side: str, *stems: str) -> int:
    """Counts that stand beside the one of a side."""
    names = [n for n in details if n != side and n.startswith((f"{side}_", *stems))]
    return sum(details[name] for name in names)


def _named(details: dict[str, int], word: str, without: tuple[str, ...] = ()) -> int | None:
    found = [
        number
        for name, number in details.items()
        if word in name and not any(each in name for each in without)
    ]
    return sum(found) if found else None
