"""The steps of an ATIF document, put in order, and what each says, as messages of OpenAI's shape.

An agent step is mostly one model call, but not always. Harbor's converter for Claude Code writes
the text of an answer and each of its calls as steps of their own, the first of them with the
metrics; and it appends calls that never got a result at the end, whenever they were made.

`prompt_tokens` is the total, cache included; `cached_tokens` are those read from the cache, and
what was written to it stands in `metrics.extra`. Metrics that are all zero are what converters
write when they do not know. Token ids and log probabilities stay in the file.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, structs

from replay.formats.common import (
    count,
    derived_id,
    known,
    listed,
    ns,
    obj,
    recorded,
    stop,
    total_usage,
    usd,
    word,
)
from replay.formats.source import Tally
from replay.messages import content_text
from replay.trace import Cost, Json, Message, Place, Response, TimeQuality, Usage

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
            tally.problem(
                where, f"has the source {step.get('source')!r}, which ATIF does not define"
            )
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
        tally.problem(where, f"has the timestamp {at!r}, which is not a time")
    calls = _objects(step.get("tool_calls"), f"{where} tool_calls", tally)
    tally.counts["tool_calls"] += len(calls)
    return Entry(
        raw=step,
        source=step["source"],
        where=where,
        place=place,
        at_ns=at_ns,
        calls=tuple(_call_of(call, where, position) for position, call in enumerate(calls)),
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


def _call_of(call: dict[str, Any], where: str, position: int) -> Asked:
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


_FAILED = "[error] tool reported failure"
_FETCHABLE = ("http://", "https://", "data:")


def input_message(entry: Entry) -> Message:
    """A step of the user or of the system."""
    return _message(role=entry.source, content=_content(entry.raw.get("message")))


def answer_message(turn: Turn) -> Message:
    """An answer of the model, its steps made one: texts, reasoning and calls in their order.

    What the converter wrote over a bare call is not what the model said and is left out; so is
    reasoning that it repeats on every step of the answer.
    """
    body: dict[str, Json] = {
        "role": "assistant",
        "content": _joined([_content(e.raw.get("message")) for e in turn if not e.invented]),
    }
    thoughts = dict.fromkeys(word(entry.raw.get("reasoning_content")) for entry in turn)
    if reasoning := "\n".join(thought for thought in thoughts if thought):
        body["reasoning_content"] = reasoning
    if calls := [_call(call) for entry in turn for call in entry.calls]:
        body["tool_calls"] = calls
    return Message(dialect="openai", body=body)


def _call(call: Asked) -> dict[str, Json]:
    given = {} if call.arguments is None else call.arguments
    text = given if isinstance(given, str) else _written(given)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def observed(entry: Entry) -> list[Message]:
    """The results of a step.

    One that names no call answers the step's only call; where there is no such call, what the
    environment said is a message of the user's, as the agents that work so send it.
    """
    answers: dict[str, list[dict[str, Any]]] = {}
    others: list[Message] = []
    for result in entry.results:
        call_id = answered(entry, result)
        if call_id is not None:
            answers.setdefault(call_id, []).append(result)
        elif (content := _content(result.get("content"))) != "":
            others.append(_message(role="user", content=content))
    return [*(_answer(entry, name, parts) for name, parts in answers.items()), *others]


def answered(entry: Entry, result: dict[str, Any]) -> str | None:
    """The id of the call that a result answers, None where it answers none."""
    named = word(result.get("source_call_id"))
    return named or (entry.calls[0].id if len(entry.calls) == 1 else None)


def _answer(entry: Entry, call_id: str, results: list[dict[str, Any]]) -> Message:
    content = _joined([_content(result.get("content")) for result in results])
    message = _message(role="tool", tool_call_id=call_id, content=content)
    failed = any(obj(result.get("extra")).get("is_error") is True for result in results)
    if failed or content_text(content).rstrip().endswith(_FAILED) or _step_failed(entry):
        message.body["is_error"] = True
    return message


def _step_failed(entry: Entry) -> bool:
    """Does the step say that its call failed? Of several calls it cannot say which."""
    metadata = obj(entry.extra.get("tool_result_metadata"))
    flags = (entry.extra.get("tool_result_is_error"), metadata.get("is_error"))
    return len(entry.calls) <= 1 and any(flag is True for flag in flags)


def _message(**body: Json) -> Message:
    return Message(dialect="openai", body=body)


# --- content


def _content(value: Json) -> Json:
    """A text, or the parts of a message (1.6) as OpenAI has them; "" for nothing."""
    if isinstance(value, list):
        return [_part(part) for part in value]
    if value is None or isinstance(value, str):
        return value or ""
    return _written(value)


def _part(part: Json) -> Json:
    """An image becomes OpenAI's; other parts stay, and what is no part is shown as written."""
    kind, source = obj(part).get("type"), obj(obj(part).get("source"))
    if not isinstance(kind, str):
        return {"type": "text", "text": part if isinstance(part, str) else _written(part)}
    if kind == "image" and word(source.get("path")) is not None:
        return {"type": "image_url", "image_url": {"url": word(source["path"])}}
    return part


def _written(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _joined(contents: list[Json]) -> Json:
    """Several contents as one: texts line by line, parts one after another."""
    kept = [content for content in contents if content]
    if all(isinstance(content, str) for content in kept):
        return "\n".join(kept)
    return [
        part
        for content in kept
        for part in (content if isinstance(content, list) else [_part(content)])
    ]


def lacks_media(entry: Entry) -> bool:
    """Does the step show media of which only a path on some machine was recorded?"""
    shown = [entry.raw.get("message"), *(result.get("content") for result in entry.results)]
    for part in (part for content in shown for part in listed(content)):
        path = obj(obj(part).get("source")).get("path")
        if isinstance(path, str) and not path.startswith(_FETCHABLE):
            return True
    return False


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
