"""What ATIF steps say of a model call beside its words: tokens, cost, why it stopped.

`prompt_tokens` is the total, cache included; `cached_tokens` are those read from the cache, and
what was written to it stands in `metrics.extra`. Metrics that are all zero are what converters
write when they do not know. Token ids and log probabilities stay in the file.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from replay.formats.atif.steps import Entry, Turn
from replay.formats.fields import known, obj, word
from replay.formats.normal import count, recorded, stop, total_usage, usd
from replay.trace import Cost, Json, Response, TimeQuality, Usage

_REASONING = ("reasoning_tokens", "reasoning_output_tokens")
_STOPS = ("stop_reason", "finish_reason")
_SHOWN_ELSEWHERE = {
    "stop_reason", "tool_use_name", "tool_result_metadata", "tool_result_is_error", "metadata",
    "raw_arguments",
}  # fmt: skip


def response(turn: Turn) -> Response:
    """Everything of the answer but its message; the last step that knows a thing is right."""
    raw = _latest(turn, _STOPS)
    return Response(
        model=next((name for entry in turn if (name := model(entry))), None),
        stop=stop(raw),
        stop_raw=word(raw),
    )


def model(entry: Entry) -> str | None:
    return word(entry.raw.get("model_name"))


def _latest(turn: Turn, names: tuple[str, ...]) -> Json:
    for entry in reversed(turn):
        for place in (entry.extra, obj(entry.metrics.get("extra"))):
            for name in names:
                if place.get(name) is not None:
                    return place[name]
    return None


def usage(metrics: dict[str, Any]) -> Usage | None:
    more = obj(metrics.get("extra"))
    found = total_usage(
        count(metrics.get("prompt_tokens")),
        count(metrics.get("completion_tokens")),
        reasoning=next(
            (n for name in _REASONING if (n := count(more.get(name))) is not None), None
        ),
        read=count(metrics.get("cached_tokens")),
        write=count(more.get("cache_creation_input_tokens")),
    )
    hourly = count(obj(more.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    return found and structs.replace(found, cache_write_1h_tokens=hourly)


def cost(metrics: dict[str, Any]) -> Cost | None:
    """The recorded cost; zero beside unknown tokens is no figure."""
    amount = usd(metrics.get("cost_usd"))
    return None if amount == 0 and usage(metrics) is None else recorded(amount)


def extra(head: Entry) -> dict[str, Json]:
    """What else the first step of a call says, but for what its spans and messages show."""
    own = {name: value for name, value in head.extra.items() if name not in _SHOWN_ELSEWHERE}
    return {**own, **known(metrics=head.metrics.get("extra"))}


def quality(*times: int | None) -> TimeQuality:
    """One timestamp a step makes every span's time derived, or unknown."""
    return "none" if all(time is None for time in times) else "derived"
