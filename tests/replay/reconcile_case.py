"""One small run as several instrumentations tell of it: in whose words, and how the spans lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from replay.formats.genai.records import RawSpan, flat

Attributes = dict[str, Any]

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("get_order", "refund_order")
]
SYSTEM = {"role": "system", "content": "Look up an order before you refund it."}
USER = {"role": "user", "content": "Refund my orders 1049 and 1050."}


def called(at: int, *wanted: tuple[str, Attributes]) -> Attributes:
    made = [
        {
            "id": f"call_{at}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(wanted)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


TURNS = [
    called(0, ("get_order", {"id": "1049"}), ("get_order", {"id": "1050"})),
    called(1, ("refund_order", {"id": "1039", "amount": 7500})),
    {"role": "assistant", "content": "Order 1039 was refunded."},
]
RESULTS = {"call_0_0": "shipped", "call_0_1": "delivered", "call_1_0": "no such order: 1039"}


def conversation(turn: int) -> list[Attributes]:
    """What the model was shown in a turn."""
    shown = [SYSTEM, USER]
    for made in TURNS[:turn]:
        shown.append(made)
        for call in made.get("tool_calls", ()):
            result = {"role": "tool", "tool_call_id": call["id"], "content": RESULTS[call["id"]]}
            shown.append(result)
    return shown


def in_genai(turn: int) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.input.messages": json.dumps(conversation(turn)),
        "gen_ai.output.messages": json.dumps([TURNS[turn]]),
        "gen_ai.tool.definitions": json.dumps(TOOLS),
        "gen_ai.usage.input_tokens": 100 * (turn + 1),
        "gen_ai.usage.output_tokens": 20 + turn,
        "gen_ai.usage.cache_read.input_tokens": 64 * bool(turn),
        "gen_ai.response.finish_reasons": ["stop" if turn == 2 else "tool_calls"],
    }


def in_openinference(turn: int) -> Attributes:
    def messages(found: list[Attributes]) -> list[Attributes]:
        told = []
        for each in found:
            one = {name: value for name, value in each.items() if name != "tool_calls"}
            made = [{"tool_call": call} for call in each.get("tool_calls", ())]
            told.append({"message": {**one, **({"tool_calls": made} if made else {})}})
        return told

    return flat(
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "gpt-4o-mini",
            "llm.input_messages": messages(conversation(turn)),
            "llm.output_messages": messages([TURNS[turn]]),
            "llm.tools": [{"tool": {"json_schema": json.dumps(tool)}} for tool in TOOLS],
            "llm.token_count.prompt": 100 * (turn + 1),
            "llm.token_count.completion": 20 + turn,
        }
    )


def in_langfuse(turn: int) -> Attributes:
    used = {"prompt_tokens": 100 * (turn + 1), "completion_tokens": 20 + turn}
    return {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "gpt-4o-mini",
        "langfuse.observation.input": json.dumps({"messages": conversation(turn), "tools": TOOLS}),
        "langfuse.observation.output": json.dumps(TURNS[turn]),
        "langfuse.observation.usage_details": json.dumps(used),
    }


def figures_alone(turn: int) -> Attributes:
    """What a client's instrumentation writes where contents are not to be recorded."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 100 * (turn + 1),
        "gen_ai.usage.output_tokens": 20 + turn,
        "gen_ai.response.finish_reasons": ["stop" if turn == 2 else "tool_calls"],
    }


MODELS: list[Callable[[int], Attributes]] = [in_genai, in_openinference, in_langfuse, figures_alone]


def tool_in_genai(name: str, arguments: Attributes, result: str, call: str) -> Attributes:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": result,
    }


def tool_in_openinference(name: str, arguments: Attributes, result: str, call: str) -> Attributes:
    return {
        "openinference.span.kind": "TOOL",
        "tool.name": name,
        "input.value": json.dumps({"args": [], "kwargs": arguments}),
        "output.value": result,
    }


def tool_in_langfuse(name: str, arguments: Attributes, result: str, call: str) -> Attributes:
    message = {"type": "tool", "content": result, "tool_call_id": call, "name": name}
    return {
        "langfuse.observation.type": "tool",
        "langfuse.observation.input": json.dumps(arguments),
        "langfuse.observation.output": json.dumps({"output": message}),
    }


TOOL_SPANS = [tool_in_genai, tool_in_openinference, tool_in_langfuse]


class Recorder:
    """The spans of the run, each call told by one span, or by several that nest or touch."""

    def __init__(self) -> None:
        self.spans: list[RawSpan] = []
        self._now = 1_000

    def add(self, name: str, accounts: list[Attributes], nested: list[bool], **more: Any) -> None:
        """The spans of one call: each lies in the one before, or beside it within its time."""
        start, end, parent = self._now, self._now + 1_000, "root"
        self._now = end + 10
        for number, attributes in enumerate(accounts):
            self.spans.append(
                RawSpan(
                    trace="t",
                    id=f"{name}.{start}.{number}",
                    parent=parent,
                    name=name,
                    start_ns=start + number,
                    end_ns=end - number,
                    attributes=dict(attributes),
                    **more,
                )
            )
            if number < len(nested) and nested[number]:
                parent = self.spans[-1].id


def run(pick: Callable[[list[Any]], tuple[list[Any], list[bool]]]) -> list[RawSpan]:
    """The run, `pick` choosing the words that tell of each call, and whether their spans nest."""
    recorder = Recorder()
    for turn, made in enumerate(TURNS):
        words, nested = pick(MODELS[:3])
        recorder.add("chat", [word(turn) for word in words], nested)
        for call in made.get("tool_calls", ()):
            function = call["function"]
            arguments = json.loads(function["arguments"])
            words, nested = pick(TOOL_SPANS)
            given = (function["name"], arguments, RESULTS[call["id"]], call["id"])
            failed = {"status": "error", "message": "no such order"} if "1039" in given[2] else {}
            told = [word(*given) for word in words]
            recorder.add(function["name"], told, nested, **failed)
    root = RawSpan(trace="t", id="root", name="shop", start_ns=1, end_ns=99_999)
    return [root, *recorder.spans]
