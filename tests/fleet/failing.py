"""Runs of the made-up agent that fail in ways which rules know, a few a day, one of them with a
secret in its task and one that nothing here can keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fleet.corpus import BEGAN_NS, message, request, span

Json = dict[str, Any]

SECRET = "sk-ant-api03-" + "Zx9" * 25
UNREADABLE = "bad5"
HOURS = 7
"""One run so often."""

_OFFERED = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("get_order", "refund_order")
]


def write(path: Path, runs: int) -> Path:
    """Append one request a line to a file."""
    with path.open("a") as file:
        for number in range(runs):
            file.write(json.dumps(request(_run(number), "support")) + "\n")
    return path


def _run(number: int) -> list[Json]:
    """The same call again and again: to an order that nobody named, to a service that fails, or for
    nothing; then a claim of what was never done."""
    trace = f"bad{number}"
    start = BEGAN_NS + number * HOURS * 3600 * 10**9
    asked, answered = [
        ({"order_id": f"X{9000 + number}"}, '{"error": "order not found"}'),
        ({"order_id": f"W{number}"}, "Error: order service unavailable"),
        ({"order_id": f"W{number}"}, f'{{"order": "W{number}", "state": "sent"}}'),
    ][number % 3]
    secret = f" My key is {SECRET}." if number == 1 else ""
    messages = [message("user", f"Refund order W{number}, please.{secret}")]
    spans: list[Json] = []
    at = start + 10**6
    for step in range(6):
        call = f"{trace}_{step}"
        said = {"type": "tool_call", "id": call, "name": "get_order", "arguments": asked}
        answer = (
            message("assistant", f"I have refunded order W{number}.")
            if step == 5
            else {"role": "assistant", "parts": [said]}
        )
        spans.append(
            span(trace, f"c{step}", at, 10**8, "root", "chat gpt-4o-mini", {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 9,
                "gen_ai.input.messages": json.dumps(messages),
                "gen_ai.output.messages": json.dumps([answer]),
                "gen_ai.tool.definitions": json.dumps(_OFFERED),
            })
        )  # fmt: skip
        if step == 5:
            break
        at += 2 * 10**8
        failed = answered if number % 3 == 1 else None
        spans.append(
            span(trace, f"t{step}", at, 10**6, "root", "execute_tool get_order", {
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order",
                "gen_ai.tool.call.id": call, "gen_ai.tool.call.arguments": json.dumps(asked),
                "gen_ai.tool.call.result": answered,
            }, error=failed)
        )  # fmt: skip
        given = {"type": "tool_call_response", "id": call, "response": answered}
        messages = [*messages, answer, {"role": "tool", "parts": [given]}]
        at += 10**7
    about = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support",
        "arc.outcome": "failed",
    }  # fmt: skip
    spans.insert(0, span(trace, "root", start, at - start, "", "invoke_agent support", about))
    return spans
