"""What an OpenHands run says of its model calls beside their words: tokens, cost, latency.

Figures stand in lists of the run: tokens and latencies under the id of the answer, costs in the
order of the calls. Old files have no ids; then a list belongs to the calls when it is as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.formats import litellm
from replay.formats.fields import listed, obj, word
from replay.formats.normal import count, seconds_ns, total_usage
from replay.trace import Cost, Json, Usage


class Figures:
    """The figures of a run by call; `answers` are the answer ids of its calls in their order."""

    def __init__(self, metrics: dict[str, Any], answers: Sequence[str | None]) -> None:
        self._tokens = _by_call(listed(metrics.get("token_usages")), answers)
        self._latencies = _by_call(listed(metrics.get("response_latencies")), answers)
        self._costs = _by_call(listed(metrics.get("costs")), answers)

    def usage(self, call: int, answer: dict[str, Any]) -> Usage | None:
        """Tokens of the provider's own answer, else of the run's list."""
        return litellm.usage(answer.get("usage")) or _usage(obj(self._tokens.get(call)))

    def cost(self, call: int, tokens: Usage | None) -> Cost | None:
        given = self._costs.get(call)
        return litellm.cost(obj(given).get("cost") if isinstance(given, dict) else given, tokens)

    def latency_ns(self, call: int) -> int | None:
        latency = seconds_ns(obj(self._latencies.get(call)).get("latency"))
        return latency if latency is not None and latency >= 0 else None


def _by_call(entries: list[Json], answers: Sequence[str | None]) -> dict[int, Json]:
    """The entries by the index of their call: by answer id, or all in their order."""
    named = {name: entry for entry in entries if (name := word(obj(entry).get("response_id")))}
    known = {call: named[name] for call, name in enumerate(answers) if name and name in named}
    if known or len(entries) != len(answers):
        return known
    return dict(enumerate(entries))


def _usage(given: dict[str, Any]) -> Usage | None:
    return total_usage(
        count(given.get("prompt_tokens")),
        count(given.get("completion_tokens")),
        reasoning=count(given.get("reasoning_tokens")) or None,
        read=count(given.get("cache_read_tokens")),
        write=count(given.get("cache_write_tokens")),
    )


def metrics_of(about: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a run: its own, or what the SDK's state adds up for the agent."""
    if isinstance(about.get("metrics"), dict):
        return obj(about["metrics"])
    stats = obj(obj(about.get("base_state")).get("stats"))
    used = obj(stats.get("usage_to_metrics")) or obj(stats.get("service_to_metrics"))
    return obj(used.get("agent"))


def reported_usd(metrics: dict[str, Any]) -> float | None:
    """The run's cost; zero without a single cost is a model without a price."""
    found = litellm.cost(metrics.get("accumulated_cost"), None)
    return found.usd if found is not None else None
