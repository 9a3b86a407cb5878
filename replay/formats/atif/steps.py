"""The steps of an ATIF document, put in order, and those of one model call put together.

An agent step is mostly one model call, but not always. Harbor's converter for Claude Code writes
the text of an answer and each of its calls as steps of their own, the first of them with the
metrics; and it appends calls that never got a result at the end, whenever they were made.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, TypeAlias

from msgspec import Struct

from replay.formats.fields import listed, obj, word
from replay.formats.intake import Tally
from replay.formats.normal import count, derived_id, ns
from replay.trace import Json, Place

_SOURCES = ("system", "user", "agent")
_FIELDS = {
    "step_id", "timestamp", "source", "message", "model_name", "reasoning_effort",
    "reasoning_content", "tool_calls", "metrics", "observation", "is_copied_context",
    "llm_call_count", "extra",
}  # fmt: skip


class Asked(Struct, frozen=True, kw_only=True):
    """A tool call of a step. A call without an id gets one, so that its result finds it."""

    id: str
    name: str
    arguments: Json


class Entry(Struct, frozen=True, kw_only=True, eq=False):
    """A step. `where` names it in a problem; `calls` and `results` are what was well formed."""

    raw: dict[str, Any]
    source: str
    where: str
    place: Place
    at_ns: int | None
    calls: tuple[Asked, ...]
    results: tuple[dict[str, Any], ...]

    @property
    def extra(self) -> dict[str, Any]:
        return obj(self.raw.get("extra"))

    @property
    def metrics(self) -> dict[str, Any]:
        return obj(self.raw.get("metrics"))

    @property
    def measured(self) -> bool:
        """Are there metrics, be they all zero?"""
        return isinstance(self.raw.get("metrics"), dict)

    @property
    def model_calls(self) -> int | None:
        """How many calls of a model the step stands for, None where it does not say (1.7)."""
        return count(self.raw.get("llm_call_count"))

    @property
    def copied(self) -> bool:
        """Was the step told before, in the document this one came from (1.5)?"""
        return self.raw.get("is_copied_context") is True

    @property
    def asks_model(self) -> bool:
        return self.source == "agent" and not self.copied and self.model_calls != 0

    @property
    def invented(self) -> bool:
        """Are the step's words the converter's? It writes `Executed Bash <id>` over a bare call."""
        said = self.raw.get("message")
        return any(said == f"Executed {call.name} {call.id}" for call in self.calls)


Turn: TypeAlias = list[Entry]
"""The steps of one model call, or one other step."""


def entries(
    steps: list[Json], tally: Tally, *, document: str | None, first: int | None
) -> list[Entry]:
    """The steps that can be read.

    `document` names one that is not the main one. Steps are counted from `first`; those of a
    sub-agent (None) have no message index, since the main document's would not be told apart.
    """
    tally.counts["steps"] += len(steps)
    found = []
    for index, step in enumerate(steps):
        where = f"step {index}" if document is None else f"{document} step {index}"
        if not isinstance(step, dict):
            tally.problem(where, "is not an object")
        elif step.get("source") not in _SOURCES:
            tally.problem(where, f"has the source {step.get('source')!r}, which ATIF does not know")
        else:
            place = _place(step, index, document, first)
            found.append(_entry(step, where, place, tally))
    return found


def _place(step: dict[str, Any], index: int, document: str | None, first: int | None) -> Place:
    own = word(step.get("step_id"))
    return Place(
        span=own if document is None else f"{document}/{own or index}",
        message=None if first is None else first + index,
    )


def _entry(step: dict[str, Any], where: str, place: Place, tally: Tally) -> Entry:
    for name in step.keys() - _FIELDS:
        tally.unknown[f"step {name}"] += 1
    at, observation = step.get("timestamp"), obj(step.get("observation"))
    at_ns = ns(at)
    if at is not None and at_ns is None:
        tally.problem(where, f"has the timestamp {at!r}, which is no time")
    calls = _objects(step.get("tool_calls"), f"{where} tool_calls", tally)
    tally.counts["tool_calls"] += len(calls)
    return Entry(
        raw=step,
        source=step["source"],
        where=where,
        place=place,
        at_ns=at_ns,
        calls=tuple(_asked(call, where, position) for position, call in enumerate(calls)),
        results=tuple(_objects(observation.get("results"), f"{where} results", tally)),
    )


def _objects(values: Json, where: str, tally: Tally) -> list[dict[str, Any]]:
    """The objects of a list; anything else is a problem."""
    if values is not None and not isinstance(values, list):
        tally.problem(where, "is not a list")
    for index, value in enumerate(listed(values)):
        if not isinstance(value, dict):
            tally.problem(f"{where}[{index}]", "is not an object")
    return [value for value in listed(values) if isinstance(value, dict)]


def _asked(call: dict[str, Any], where: str, position: int) -> Asked:
    return Asked(
        id=word(call.get("tool_call_id")) or derived_id(where, position),
        name=word(call.get("function_name")) or "",
        arguments=call.get("arguments"),
    )


def turns(found: list[Entry]) -> list[Turn]:
    """The steps in the order they happened, those of one model call together."""
    gathered: list[Turn] = []
    for entry in _in_time(found):
        if gathered and _continues(entry, gathered[-1]):
            gathered[-1].append(entry)
        else:
            gathered.append([entry])
    return gathered


def _in_time(found: list[Entry]) -> list[Entry]:
    """The unanswered calls at the end put back behind the last step that is not later."""
    end = len(found)
    while end and _appended(found[end - 1]):
        end -= 1
    clock = list(accumulate((entry.at_ns or 0 for entry in found[:end]), max))
    keyed = list(enumerate(found[:end]))
    keyed.extend((bisect_right(clock, entry.at_ns or 0) - 1, entry) for entry in found[end:])
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]


def _appended(entry: Entry) -> bool:
    bare = entry.invented and not entry.measured and not entry.results
    return bare and entry.at_ns is not None


def _continues(entry: Entry, turn: Turn) -> bool:
    """Does the step belong to the same answer of the model as the steps before it?

    It has no metrics of its own, and either the time of the one before or nothing to say but a
    call, where the answer's metrics have been told already.
    """
    if not (entry.asks_model and turn[0].asks_model):
        return False
    if entry.measured or entry.model_calls is not None:
        return False
    at_once = entry.at_ns is not None and entry.at_ns == turn[-1].at_ns
    return at_once or (entry.invented and turn[0].measured)


def replaces_context(entry: Entry) -> bool:
    """Does the step put something else in the place of all that was said before (1.7)?"""
    told = obj(entry.extra.get("context_management"))
    return entry.source == "system" and told.get("boundary") == "replace"


def given_up(turn: Turn, follower: Turn | None) -> bool:
    """Was this answer broken off and asked for again?

    The metrics of a broken stream are all zero, nothing it asked for was run, and the next answer
    follows at once.
    """
    head = turn[0]
    if follower is None or not (head.asks_model and follower[0].asks_model):
        return False
    figures = ("prompt_tokens", "completion_tokens", "cached_tokens")
    nothing = head.measured and not any(head.metrics.get(name) for name in figures)
    return nothing and not any(entry.results for entry in turn)
