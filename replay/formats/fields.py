"""Fields of a foreign event, taken only where they have the type they should have."""

from __future__ import annotations

from typing import Any, NamedTuple

from replay.formats.normal import ns
from replay.trace import Json, Place, Status, TimeQuality


def obj(value: Json) -> dict[str, Any]:
    """The object, {} for anything else."""
    return value if isinstance(value, dict) else {}


def listed(value: Json) -> list[Json]:
    """The list, [] for anything else."""
    return value if isinstance(value, list) else []


def word(value: Json) -> str | None:
    """A text or a number as text, None for anything else and for nothing."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return str(value) or None


def known(**fields: Json) -> dict[str, Json]:
    """The fields that say something: None, "", {} and [] are left out."""
    return {name: value for name, value in fields.items() if value not in (None, "", {}, [])}


class Times(NamedTuple):
    start_ns: int | None
    end_ns: int | None
    quality: TimeQuality = "exact"


def times(event: dict[str, Any], otherwise: Json = None) -> Times:
    """From `timestamp` to `completed`; `otherwise` is a timestamp it must have ended by."""
    start, end = ns(event.get("timestamp")), ns(event.get("completed"))
    if start is None:
        return Times(None, end, "none")
    if end is None and not event.get("pending") and otherwise is not None:
        return Times(start, ns(otherwise), "derived")
    return Times(start, end)


def status_of(event: dict[str, Any], error: str | None) -> Status:
    """Pending is neither: the run ended before the call did."""
    if error is not None or event.get("failed"):
        return "error"
    return "unset" if event.get("pending") else "ok"


def place_of(event: dict[str, Any]) -> Place:
    """Where the event stands: under its uuid, which logs have since the autumn of 2025."""
    return Place(span=word(event.get("uuid")))
