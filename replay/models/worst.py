"""What is the most that a request can cost? Known before it is sent, so a limit can hold."""

from __future__ import annotations

from typing import Any

from replay import canon, prices
from replay.budget import Worst
from replay.trace import Json, Usage

_MEDIA_TOKENS = 6000
"""More than any image or page is counted as."""

_TOOLS_TOKENS = 800
"""More than the provider's own words about tools, which no request shows, take."""


def worst(body: dict[str, Any], model: str) -> Worst:
    """The most a request can cost: two characters a token, no answer shorter than its limit."""
    media = _media(body["messages"])
    size = len(canon.encode(body)) - sum(map(len, media))
    into = size // 2 + _MEDIA_TOKENS * len(media) + (_TOOLS_TOKENS if body.get("tools") else 0)
    usage = Usage(input_tokens=into, output_tokens=body["max_tokens"], cache_write_tokens=into)
    cost = prices.price(usage, model)
    return Worst(tokens=into + body["max_tokens"], usd=None if cost is None else cost.usd)


def _media(value: Json) -> list[str]:
    """Every base64 text in a value."""
    if isinstance(value, list):
        return [found for entry in value for found in _media(entry)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "base64":
        return [str(value.get("data", ""))]
    return [found for entry in value.values() for found in _media(entry)]
