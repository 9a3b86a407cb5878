"""Token counts as libraries write them, under the names of the GenAI conventions."""

from __future__ import annotations

from typing import Any

from replay.formats.fields import obj
from replay.formats.normal import count
from replay.trace import Json

_IN = ("input_tokens", "prompt_tokens", "promptTokens", "inputTokens", "prompt_token_count")
_OUT = (
    "output_tokens", "completion_tokens", "completionTokens", "outputTokens",
    "candidates_token_count",
)  # fmt: skip
_IN_PARTS = (
    "input_tokens_details", "prompt_tokens_details", "input_token_details", "prompt_token_details",
)  # fmt: skip
_OUT_PARTS = (
    "output_tokens_details", "completion_tokens_details", "output_token_details",
    "completion_token_details",
)  # fmt: skip
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


def figures(usage: Json) -> dict[str, Json]:
    """The counts of a call. Anthropic counts what was cached beside the input, all others in it."""
    given = obj(usage)
    total, out = _first(given, _IN), _first(given, _OUT)
    reading = _parts(given, _IN_PARTS)
    writing = _parts(given, _OUT_PARTS)
    read = _first({**reading, **given}, ("cached_tokens", "cache_read", _BESIDE[0]))
    write = _first({**reading, **given}, ("cache_creation", "cache_write_tokens", _BESIDE[1]))
    beside = "input_tokens" in given and not reading and any(name in given for name in _BESIDE)
    if beside and total is not None:
        total += (read or 0) + (write or 0)
    reasoning = _first(writing, ("reasoning_tokens", "reasoning"))
    return counted(total, out, read=read, write=write, reasoning=reasoning)


def counted(
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


def _first(given: dict[str, Any], names: tuple[str, ...]) -> int | None:
    found = (count(given.get(name)) for name in names)
    return next((each for each in found if each is not None), None)


def _parts(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return next((obj(given[name]) for name in names if obj(given.get(name))), {})
