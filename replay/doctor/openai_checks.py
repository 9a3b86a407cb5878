"""The tries of a check-up at a server of OpenAI's APIs: requests of our own texts, made as replay
makes those of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from replay.budget import Budget, Worst
from replay.convert import Converter, Sent
from replay.doctor.context import TIMEOUT_S, Body, ServerCheck
from replay.doctor.probes import (
    Found,
    Probe,
    accepted,
    fails,
    holds,
    input_tokens,
    tried,
    unclear,
    used,
)
from replay.errors import ModelRefused, RequestRefused
from replay.models.choose import client_of
from replay.models.line import max_cost
from replay.models.openai_batches import BatchingOpenAI
from replay.models.protocol import BATCH_PRICE_SHARE, Sending, Target
from replay.models.servers import wire_of
from replay.openai_requests import grow
from replay.openai_settings import DEFAULT_REASONED_TOKENS
from replay.providers import bare, reasons
from replay.store.handle import Store
from replay.trace import Message, Request, Tool, extend

SYSTEM = "You keep the log of a boiler room. Answer in one short sentence."
ROOM_TOKENS = 256
STREAMED_TOKENS = 16_001

GAUGE = Tool(
    name="read_gauge",
    description="Reads a gauge of the boiler room. The pressure comes back in bar.",
    schema={
        "type": "object",
        "properties": {"gauge": {"type": "string", "description": "A letter, like A."}},
        "required": ["gauge"],
    },
)
CLOCK = Tool(name="read_clock", description="Reads the clock.", schema={"type": "object"})


class OpenAICheck(ServerCheck):
    """A model at a server of one of OpenAI's APIs."""

    def __init__(self, store: Store, target: Target, budget: Budget) -> None:
        live = client_of(target)(
            target.model,
            budget=budget,
            wire=wire_of(target),
            base_url=target.url or "",
            where=target.address,
            rates=target.prices,
            timeout_s=TIMEOUT_S,
        )
        super().__init__(store, budget, live, target.server)
        self._batching = live if isinstance(live, BatchingOpenAI) else None

    def try_batch(self) -> Found:
        """Two requests sent, found again, and cancelled: nobody waits a day for them."""
        if self._batching is None:
            return unclear("batch", "the settings do not say that this server takes batches")
        bodies = {f"arc-doctor-{at}": body for at, body in enumerate(batch_bodies(self.model), 1)}
        each = [max_cost(body, self.model) for body in bodies.values()]
        usd = [call.usd for call in each if call.usd is not None]
        self.afford(
            Worst(
                tokens=sum(call.tokens for call in each),
                usd=sum(usd) * BATCH_PRICE_SHARE if len(usd) == len(each) else None,
            )
        )
        sending = Sending(2, self.began_ns, frozenset(), f"arc-doctor-{self.began_ns}")
        try:
            name = self._batching.send_batch(bodies, sending)
        except ModelRefused as refused:
            return fails("batch", f"rejected: {refused.message}")
        status = self._batching.batch_status(name)
        if status is None:
            return fails("batch", "accepted, but not retrieved by its id")
        try:
            cancelled = self._batching.cancel_batch(name)
        except ModelRefused as refused:
            cancelled = f"not cancelled ({refused.message})"
        return holds("batch", f"accepted, `{status}` when retrieved, then {cancelled}")


def _body(model: str, said: list[Body], tools: tuple[Tool, ...] = (), **params: Any) -> Body:
    """The body of a request as replay would send it."""
    return _make_request(model, said, tools, **params).body()


def _make_request(
    model: str, said: list[Body], tools: tuple[Tool, ...] = (), **params: Any
) -> Sent:
    dialect: Any = "openai"
    request = Request(
        system=Message(dialect=dialect, body={"role": "system", "content": SYSTEM}),
        tools=tools,
        params={"max_tokens": _room(model), **params},
        context=extend(None, [Message(dialect=dialect, body=each) for each in said]),
    )
    return Converter(model).sent(request)


def _room(model: str) -> int:
    return DEFAULT_REASONED_TOKENS // 4 if reasons(model) else ROOM_TOKENS


def _user(text: str) -> Body:
    return {"role": "user", "content": text}


def plain(model: str, **params: Any) -> Body:
    return _body(model, [_user("Say: all is well.")], **params)


def recorded_call(model: str) -> Body:
    function = {"name": GAUGE.name, "arguments": '{"gauge": "A"}'}
    call = {"id": "call_Wq3ov1KJ", "type": "function", "function": function}
    said = [
        _user("What does gauge A show?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "2.1 bar"},
    ]
    return _body(model, said, (GAUGE,))


def translated_call(model: str, *tools: Tool) -> Body:
    """Two calls in one turn and their results, from the words of the Messages API."""
    calls = [
        {"type": "tool_use", "id": f"toolu_{at}", "name": GAUGE.name, "input": {"gauge": gauge}}
        for at, gauge in enumerate("AB")
    ]
    results = [
        {"type": "tool_result", "tool_use_id": each["id"], "content": "2.1 bar"} for each in calls
    ]
    bodies = [
        _user("What do gauges A and B show?"),
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [*results, {"type": "text", "text": "Are they equal?"}]},
    ]
    request = Request(
        tools=tools or (GAUGE,),
        params={"max_tokens": _room(model)},
        context=extend(None, [Message(dialect="anthropic", body=each) for each in bodies]),
    )
    return Converter(model).sent(request).body()


def tool_gone(model: str) -> Body:
    return translated_call(model, CLOCK)


def late_system(model: str) -> Body:
    said = [
        _user("Is all well?"),
        {"role": "assistant", "content": "All is well."},
        {"role": "system", "content": "The night shift has begun."},
        _user("Are you sure?"),
    ]
    return _body(model, said)


def force_choice(model: str) -> Sent:
    choice = {"type": "function", "function": {"name": GAUGE.name}}
    return _make_request(model, [_user("Is all well with gauge A?")], (GAUGE,), tool_choice=choice)


def warm(model: str) -> Body:
    """With a temperature, whatever is known of the model."""
    return {**plain(model), "temperature": 0.5}


def ask_form(model: str) -> Body:
    shape = {
        "type": "object",
        "properties": {"well": {"type": "boolean"}},
        "required": ["well"],
        "additionalProperties": False,
    }
    form = {"format": {"type": "json_schema", "schema": shape}}
    return _body(model, [_user("Gauge A shows 2 bar. Is all well?")], output_config=form)


def ask_long(model: str) -> Body:
    return plain(model, max_tokens=STREAMED_TOKENS)


def _try_choice(desk: ServerCheck) -> Iterator[Found]:
    answer = tried(desk, force_choice(desk.model).body())
    if isinstance(answer, RequestRefused):
        yield fails("forced_choice", f"rejected: {answer.message}")
    elif any(block["type"] == "tool_use" for block in answer["content"]):
        yield holds("forced_choice", "accepted, and the tool was called")
    elif answer["stop_reason"] == "max_tokens":
        yield unclear("forced_choice", "accepted, but the response was cut before any call")
    else:
        yield fails("forced_choice", "accepted, but the tool was not called")


def _reasoning(desk: ServerCheck) -> Iterator[Found]:
    """A call whose result is sent with the reasoning before it."""
    asked = force_choice(desk.model)
    answer = tried(desk, asked.body())
    if isinstance(answer, RequestRefused):
        yield unclear("reasoning_back", f"rejected: {answer.message}")
        return
    calls = sum(block["type"] == "tool_use" for block in answer["content"])
    if not calls or not any("item" in block for block in answer["content"]):
        yield unclear("reasoning_back", "no call came with reasoning to send back")
        return
    grown = grow(asked.conversation, asked.wire, bare(desk.model), answer["content"],
                 ["2.1 bar"] * calls)  # fmt: skip
    found = tried(desk, structs.replace(asked, conversation=grown).body())
    if isinstance(found, RequestRefused):
        yield fails("reasoning_back", f"rejected: {found.message}")
    else:
        yield holds("reasoning_back", "accepted")


def _sampling(desk: ServerCheck) -> Iterator[Found]:
    answer = tried(desk, warm(desk.model))
    refused = isinstance(answer, RequestRefused)
    said = f"rejected: {answer.message}" if isinstance(answer, RequestRefused) else "accepted"
    as_assumed = refused is reasons(desk.model)
    yield holds("sampling", said) if as_assumed else fails("sampling", said)


def _answer_form(desk: ServerCheck) -> Iterator[Found]:
    answer = tried(desk, ask_form(desk.model))
    if isinstance(answer, RequestRefused):
        yield fails("answer_form", f"rejected: {answer.message}")
        return
    text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
    try:
        follows = type(msgspec.json.decode(text.strip()).get("well")) is bool
    except (msgspec.DecodeError, AttributeError):
        follows = False
    if follows:
        yield holds("answer_form", "accepted and followed")
    else:
        yield fails("answer_form", "accepted, but the answer does not follow it")


def _usage(desk: ServerCheck) -> Iterator[Found]:
    answer = tried(desk, plain(desk.model))
    if isinstance(answer, RequestRefused):
        yield unclear("usage", f"rejected: {answer.message}")
        return
    yield _figures("usage", answer)


def _stream(desk: ServerCheck) -> Iterator[Found]:
    answer = tried(desk, ask_long(desk.model))
    if isinstance(answer, RequestRefused):
        yield fails("stream", f"rejected: {answer.message}")
    else:
        yield _figures("stream", answer)


def batch_bodies(model: str) -> list[Body]:
    return [plain(model, max_tokens=_room(model) + at) for at in (0, 1)]


def _batch(desk: OpenAICheck) -> Iterator[Found]:
    yield desk.try_batch()


def _figures(check: str, answer: Body) -> Found:
    said = f"{input_tokens(answer)} tokens in, {used(answer, 'output_tokens')} out"
    known = input_tokens(answer) > 0 and used(answer, "output_tokens") > 0
    return holds(check, said) if known else fails(check, f"no usage: {said}")


PROBES: tuple[Probe, ...] = (
    accepted("recorded_call", recorded_call),
    accepted("translated_call", translated_call),
    accepted("tool_gone", tool_gone),
    accepted("late_system", late_system),
    Probe(("forced_choice",), _try_choice, lambda model: [force_choice(model).body()]),
    Probe(("reasoning_back",), _reasoning, lambda model: [force_choice(model).body()] * 2),
    Probe(("sampling",), _sampling, lambda model: [warm(model)]),
    Probe(("answer_form",), _answer_form, lambda model: [ask_form(model)]),
    Probe(("usage",), _usage, lambda model: [plain(model)]),
    Probe(("stream",), _stream, lambda model: [ask_long(model)]),
    Probe(("batch",), _batch, batch_bodies),
)
"""In the order they are asked."""
