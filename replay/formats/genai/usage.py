"""Tokens and money of a call, whichever library or service counted them.

Counts are given under the names of the GenAI conventions: the input includes what was cached.
"""

from __future__ import annotations

from typing import Any

from replay.formats.common import count, obj
from replay.formats.genai.records import readable, usd
from replay.trace import Json

_IN = (
    "input_tokens", "prompt_tokens", "promptTokens", "inputTokens", "prompt_token_count",
    "promptTokenCount",
)  # fmt: skip

_OUT = (
    "output_tokens", "completion_tokens", "completionTokens", "outputTokens",
    "candidates_token_count", "candidatesTokenCount",
)  # fmt: skip

_IN_PARTS = (
    "input_tokens_details", "prompt_tokens_details", "input_token_details", "prompt_token_details",
)  # fmt: skip

_OUT_PARTS = (
    "output_tokens_details", "completion_tokens_details", "output_token_details",
    "completion_token_details",
)  # fmt: skip

_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")

_READ = (
    "cached_tokens", "cache_read", _BESIDE[0], "cached_content_token_count",
    "cachedContentTokenCount", "cachedInputTokens", "cacheReadInputTokens",
)  # fmt: skip


def figures(usage: Json) -> dict[str, Json]:
    """The counts of a call. Anthropic counts what was cached beside the input, all others in it."""
    given = obj(usage)
    if not given:  # most places where a response may have its counts have none
        return {}
    total, out = _first(given, _IN), _first(given, _OUT)
    reading = _parts(given, _IN_PARTS)
    writing = _parts(given, _OUT_PARTS)
    read = _first({**reading, **given}, _READ)
    write = _first({**reading, **given}, ("cache_creation", "cache_write_tokens", _BESIDE[1]))
    beside = "input_tokens" in given and not reading and any(name in given for name in _BESIDE)
    if beside and total is not None:
        total += (read or 0) + (write or 0)
    reasoning = _first(writing, ("reasoning_tokens", "reasoning"))
    return as_counts(total, out, read=read, write=write, reasoning=reasoning)


def as_counts(
    total: int | None,
    out: int | None,
    *,
    read: int | None = None,
    write: int | None = None,
    write_1h: int | None = None,
    reasoning: int | None = None,
) -> dict[str, Json]:
    """Counts under their names, those that are known; `total` includes what was cached."""
    found = {
        "gen_ai.usage.input_tokens": total,
        "gen_ai.usage.output_tokens": out,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_write.input_tokens": write,
        "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": write_1h,
        "gen_ai.usage.reasoning.output_tokens": reasoning,
    }
    return {name: value for name, value in found.items() if value is not None}


def usage_of(response: Json) -> dict[str, Json]:
    """The counts that stand in a response: its own, those of its message, or those that LangChain
    notes beside it; {} where there are none."""
    given = obj(response)
    if not given:
        return {}
    message: Json = given.get("message")
    first: Json = given.get("generations")
    while isinstance(first, list) and first:
        first = first[0]
    message = obj(first).get("message", message)
    body = obj(obj(message).get("kwargs")) or obj(message)
    places = (
        *(given.get(name) for name in _USAGES),
        *(body.get(name) for name in _USAGES),
        obj(given.get("llm_output")).get("token_usage"),
    )
    return next((counts for each in places if (counts := figures(each))), {})


_USAGES = ("usage_metadata", "usage", "usageMetadata", "token_usage")


def _first(given: dict[str, Any], names: tuple[str, ...]) -> int | None:
    found = (count(given[name]) for name in names if name in given)
    return next((each for each in found if each is not None), None)


def _parts(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return next((obj(given[name]) for name in names if obj(given.get(name))), {})


# --- MLflow


def mlflow_counts(usage: Json) -> dict[str, Json]:
    """MLflow's counts of a call; its input has the cache in it, whoever counted."""
    given = obj(readable(usage))
    return as_counts(
        count(given.get("input_tokens")),
        count(given.get("output_tokens")),
        read=count(given.get("cache_read_input_tokens")),
        write=count(given.get("cache_creation_input_tokens")),
    )


# --- Langfuse


def service_counts(row: dict[str, Any]) -> dict[str, Json]:
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
    return as_counts(
        total_in,
        total_out,
        read=_sum_of(details, "cache", without=("creation", "write")),
        write=_sum_of(details, "creation"),
        write_1h=_sum_of(details, "creation_1h"),
        reasoning=_sum_of(details, "reasoning"),
    )


def service_cost(row: dict[str, Any]) -> float | None:
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


def _sum_of(details: dict[str, int], word: str, without: tuple[str, ...] = ()) -> int | None:
    found = [
        number
        for name, number in details.items()
        if word in name and not any(each in name for each in without)
    ]
    return sum(found) if found else None
