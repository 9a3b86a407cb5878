"""Traces by hand, in a few words a step.

    trace([
        step("I look it up.", call("get_order", error("no such order"), order_id="1099")),
        heard("Are you sure?"),
        "Order 1099 is on its way.",
    ], task="Where is my parcel?", outcome="failed")

Messages are Anthropic's, so a step may call several tools at once. A string is a step that only
speaks. Times run one second a step from a fixed moment unless a step says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from replay import digests, steps
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Tally
from replay.trace import (
    AgentSpan,
    AnySpan,
    Cost,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Outcome,
    Place,
    Request,
    Response,
    Stop,
    Tool,
    Trace,
    Usage,
)

START_NS = 1_767_225_600_000_000_000
SECOND_NS = 1_000_000_000


class Gives(Struct, frozen=True):
    """What a tool returned; `None` as text for no result at all."""

    text: str | None
    error: bool = False


class Called(Struct, frozen=True, kw_only=True):
    """A call of a tool and what it gave."""

    name: str
    arguments: Json
    gives: Gives


class Spoken(Struct, frozen=True, kw_only=True):
    """A step: words, calls, and what the source says of the model call."""

    said: str = ""
    thought: str = ""
    calls: tuple[Called, ...] = ()
    seconds: float = 1.0
    tokens: int | None = None
    usd: float | None = None
    stop: Stop | None = None
    agent: str | None = None


class Heard(Struct, frozen=True):
    """A message of the user between two steps."""

    text: str


Part = str | Spoken | Heard


def error(text: str) -> Gives:
    """A result marked as an error."""
    return Gives(text, error=True)


NOTHING = Gives(None)
"""No result was recorded."""


def call(name: str, gives: Gives | Json = "ok", /, **arguments: Json) -> Called:
    """A call by keyword arguments; a result that is no text is its JSON."""
    if not isinstance(gives, Gives):
        gives = Gives(gives if isinstance(gives, str) else json.dumps(gives))
    return Called(name=name, arguments=arguments, gives=gives)


def step(*parts: str | Called, **known: Any) -> Spoken:
    """A step of words and calls; `known` are fields of `Spoken`."""
    said = "\n".join(part for part in parts if isinstance(part, str))
    calls = tuple(part for part in parts if isinstance(part, Called))
    return Spoken(said=said, calls=calls, **known)


def heard(text: str) -> Heard:
    """What the user said between two steps."""
    return Heard(text)


def trace(
    parts: Sequence[Part],
    *,
    task: str | None = "Do the task.",
    system: str | None = None,
    tools: Sequence[Tool] | None = None,
    outcome: Literal["passed", "failed", "unknown"] = "failed",
    extra: dict[str, Json] | None = None,
    header: dict[str, Any] | None = None,
) -> Trace:
    """A whole trace of one thread. `task` None leaves the first user message out."""
    builder = _Builder(system=system, tools=tools)
    if task is not None:
        builder.hear(_text("user", task))
    for part in parts:
        match part:
            case Heard(text):
                builder.hear(_text("user", text))
            case Spoken():
                builder.speak(part)
            case str():
                builder.speak(Spoken(said=part))
    root = AgentSpan(id="root", name="agent", start_ns=START_NS, extra=extra or {})
    spans: tuple[AnySpan, ...] = (root, *builder.thread.spans())
    made, loose, _ = steps.build(spans)
    return Trace(
        id=digests.trace_id("built", str(task), None),
        run="built",
        header=Header(
            format="built", source_id="built", outcome=Outcome(status=outcome), **(header or {})
        ),
        spans=spans,
        steps=made,
        loose=loose,
    )


def tool(name: str, description: str = "", **properties: Json) -> Tool:
    """A tool whose arguments are all required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name=name, description=description, schema=schema)


class _Builder:
    """Messages into spans, by the importers' own thread."""

    def __init__(self, *, system: str | None, tools: Sequence[Tool] | None) -> None:
        request = Request(
            system=None if system is None else _text("system", system),
            tools=None if tools is None else tuple(tools),
        )
        self.thread = Thread(
            parent="root",
            request=request,
            fidelity=Fidelity(level=Level.REBUILT),
            tally=Tally(),
        )
        self._clock = START_NS
        self._count = 0

    def hear(self, message: Message) -> None:
        self.thread.add_message(message)

    def speak(self, spoken: Spoken) -> None:
        ids = [f"call-{self._count}-{index}" for index in range(len(spoken.calls))]
        start, self._clock = self._clock, self._clock + int(spoken.seconds * SECOND_NS)
        turn = Turn(
            id=f"step-{self._count}",
            place=Place(message=self._count, line=self._count + 1),
            start_ns=start,
            end_ns=self._clock,
            time_quality="exact",
            response=Response(stop=spoken.stop),
            usage=None if spoken.tokens is None else Usage(input_tokens=spoken.tokens),
            cost=None if spoken.usd is None else Cost(usd=spoken.usd, source="recorded"),
            agent=spoken.agent,
        )
        self.thread.add_model_call(_answer(spoken, ids), turn)
        self._count += 1
        results = [
            _result(name, called.gives)
            for name, called in zip(ids, spoken.calls, strict=True)
            if called.gives.text is not None
        ]
        if results:
            body = {"role": "user", "content": results}
            self.thread.add_message(Message(dialect="anthropic", body=body), at_ns=self._clock)


def _text(role: str, text: str) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": text})


def _answer(spoken: Spoken, ids: Sequence[str]) -> Message:
    blocks: list[dict[str, Json]] = []
    if spoken.thought:
        blocks.append({"type": "thinking", "thinking": spoken.thought})
    if spoken.said:
        blocks.append({"type": "text", "text": spoken.said})
    blocks += [
        {"type": "tool_use", "id": name, "name": called.name, "input": called.arguments}
        for name, called in zip(ids, spoken.calls, strict=True)
    ]
    return Message(dialect="anthropic", body={"role": "assistant", "content": blocks})


def _result(call_id: str, gives: Gives) -> dict[str, Json]:
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": gives.text,
        "is_error": gives.error,
    }
