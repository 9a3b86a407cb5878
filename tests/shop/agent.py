"""The agent loop, and its tape: every request, answer, call and result as spans of one trace.

A turn's calls are executed together; `ask_researcher` starts a sub-agent on its own thread, whose
last words are the result. Nothing here is random: the model is a function of its request, the
clock counts, the shop is in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from replay import messages
from replay.models.protocol import Model
from replay.trace import (
    AgentSpan,
    AnySpan,
    Context,
    Fidelity,
    Json,
    Level,
    Message,
    ModelCall,
    Observation,
    Place,
    Request,
    Response,
    ToolCall,
    Usage,
    extend,
)
from tests.shop import clock, tools
from tests.shop.customer import Customer
from tests.shop.tools import RESEARCHER, ShopTool
from tests.shop.world import Refused, Shop

MAX_TOKENS = 1024
MAX_STEPS = 40
_PAUSE_NS = 4_000_000
_TYPING_NS = 19_000_000_000


class Agent(NamedTuple):
    """Who acts: a name, a system prompt, and the tools it is offered."""

    name: str
    system: str
    tools: dict[str, ShopTool]


class Played(NamedTuple):
    """How a thread ended: everything it told its user, its last words apart, and the moment."""

    told: str
    words: str
    end_ns: int


class Recorder:
    """Plays one run and keeps its spans, in the order in which they began."""

    def __init__(self, model: Model, sample: int, shop: Shop, researcher: Agent) -> None:
        self.spans: list[AnySpan] = []
        self._model = model
        self._sample = sample
        self._shop = shop
        self._researcher = researcher
        self._delegated = 0

    def play(self, agent: Agent, customer: Customer, start_ns: int, parent: str | None) -> Played:
        """The whole thread of one agent, from the customer's first words to its last answer."""
        name = agent.name if parent is None else f"{agent.name}-{self._delegated}"
        slot = len(self.spans)
        root = AgentSpan(
            id=name, name=agent.name, parent=parent, start_ns=start_ns, status="ok",
            place=Place(span=name),
        )  # fmt: skip
        self.spans.append(root)
        played = self._turns(agent, name, customer, start_ns)
        self.spans[slot] = structs.replace(root, end_ns=played.end_ns)
        return played

    def _turns(self, agent: Agent, thread: str, customer: Customer, now: int) -> Played:
        context = extend(None, [_said(customer.opening)])
        told: list[str] = []
        for step in range(MAX_STEPS):
            span = self._ask(agent, thread, step, context, now)
            assert span.end_ns is not None
            assert span.response.message is not None
            context, now = extend(context, [span.response.message]), span.end_ns
            if span.response.stop == "tool":
                results, now = self._act(agent, span, now + _PAUSE_NS)
                context = extend(context, [results])
                continue
            words = messages.text(span.response.message)
            told.append(words)
            reply = customer.reply(words)
            if reply is None:
                return Played("\n".join(told), words, now)
            context, now = extend(context, [_said(reply)]), now + _TYPING_NS
        raise AssertionError(f"{thread} took more than {MAX_STEPS} steps")

    def _ask(
        self, agent: Agent, thread: str, step: int, context: Context | None, now: int
    ) -> ModelCall:
        assert context is not None
        body = request_body(agent, context)
        answer = self._model.complete(body, self._sample)
        usage = answer["usage"]
        took = clock.model_ns(answer["id"], usage["input_tokens"], usage["output_tokens"])
        stop = "tool" if answer["stop_reason"] == "tool_use" else "end"
        span = ModelCall(
            id=f"{thread}.{step}",
            name="chat demo",
            parent=thread,
            start_ns=now,
            end_ns=now + took,
            status="ok",
            place=Place(span=f"{thread}.{step}", message=context.depth),
            request=Request(
                model=self._model.name,
                system=Message(
                    dialect="anthropic", body={"role": "system", "content": agent.system}
                ),
                tools=tuple(tool.offer for tool in agent.tools.values()),
                params={"max_tokens": MAX_TOKENS},
                context=context,
            ),
            response=Response(
                message=Message(
                    dialect="anthropic",
                    body={"role": "assistant", "content": answer["content"]},
                ),
                id=answer["id"],
                model=answer["model"],
                stop="tool" if stop == "tool" else "end",
                stop_raw=answer["stop_reason"],
            ),
            usage=Usage(
                input_tokens=usage["input_tokens"],
                output_tokens=usage["output_tokens"],
                cache_read_tokens=0,
                cache_write_tokens=0,
            ),
            fidelity=Fidelity(level=Level.EXACT),
        )
        self.spans.append(span)
        return span

    def _act(self, agent: Agent, asked_by: ModelCall, now: int) -> tuple[Message, int]:
        """Every call of a turn at once; the results go back in one message, in call order."""
        assert asked_by.response.message is not None
        blocks: list[Json] = []
        slots: list[int] = []
        for call in messages.calls(asked_by.response.message):
            slots.append(len(self.spans))
            blocks.append(self._execute(agent, asked_by, call, now))
        results = Message(dialect="anthropic", body={"role": "user", "content": blocks})
        latest = now
        for block, slot in enumerate(slots):
            span = self.spans[slot]
            assert isinstance(span, ToolCall)
            assert span.end_ns is not None
            seen = Observation(message=results, block=block)
            self.spans[slot] = structs.replace(span, observation=seen)
            latest = max(latest, span.end_ns)
        return results, latest + _PAUSE_NS

    def _execute(
        self, agent: Agent, asked_by: ModelCall, call: messages.Call, now: int
    ) -> dict[str, Any]:
        tool = agent.tools.get(call.name)
        span = ToolCall(
            id=f"{asked_by.id}.{call.name}-{call.position}",
            name=call.name,
            parent=asked_by.parent,
            start_ns=now,
            place=Place(
                span=f"{asked_by.id}.{call.name}-{call.position}", message=asked_by.place.message
            ),
            call_id=call.id,
            asked_by=asked_by.id,
            arguments=call.arguments,
            effect=tool.effect if tool is not None else "unknown",
        )
        slot = len(self.spans)
        self.spans.append(span)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id}
        end_ns = now + clock.tool_ns(str(call.id), tool.latency_ms if tool is not None else 3)
        try:
            if call.name == RESEARCHER and tool is not None:
                asked = str((call.arguments or {}).get("question"))
                played = self._delegate(asked, span.id, end_ns)
                block["content"], end_ns = played.words, played.end_ns
            else:
                value = tools.call(self._shop, call.name, call.arguments or {}, agent.tools)
                block["content"] = msgspec.json.encode(value).decode()
            self.spans[slot] = structs.replace(span, end_ns=end_ns, status="ok")
        except Refused as refusal:
            block.update(content=str(refusal), is_error=True)
            self.spans[slot] = structs.replace(
                span, end_ns=end_ns, status="error", error=str(refusal)
            )
        return block

    def _delegate(self, question: str, span: str, now: int) -> Played:
        self._delegated += 1
        return self.play(self._researcher, Customer(question), now, parent=span)


def request_body(agent: Agent, context: Context) -> dict[str, Json]:
    """What goes over the wire to the model."""
    return {
        "model": "demo",
        "max_tokens": MAX_TOKENS,
        "system": agent.system,
        "tools": tools.as_sent(agent.tools),
        "messages": [message.body for message in context.messages()],
    }


def _said(text: str) -> Message:
    return Message(dialect="anthropic", body={"role": "user", "content": text})
