"""Runs of a made-up support agent in the words of OpenTelemetry's GenAI conventions: what a store
tells of them, an import of the same file tells too."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.replay.otlp_case import hexed, pairs, typed

DAY_NS = 86_400_000_000_000
BEGAN_NS = 1_795_226_616_000_000_000

Json = dict[str, Any]

TOOLS = ("get_order", "refund_order", "search_docs")
MODELS = ("claude-sonnet-4-5", "gpt-4o-mini")


def write(path: Path, runs: int, *, outcomes: bool = True, seed: int = 3) -> Path:
    """One request a line, a run each; between them traces of a web server, which are no runs."""
    chance = random.Random(seed)
    with path.open("w") as file:
        for number in range(runs):
            file.write(json.dumps(request(_run(chance, number, outcomes), "support")) + "\n")
            if number % 3 == 0:
                file.write(json.dumps(request([_page(number)], "shop-web")) + "\n")
    return path


def request(spans: list[Json], service: str) -> Json:
    resource = {"service.name": service, "deployment.environment.name": "prod"}
    return {
        "resourceSpans": [
            {"resource": {"attributes": pairs(resource)}, "scopeSpans": [{"spans": spans}]}
        ]
    }


def _page(number: int) -> Json:
    return span(f"page{number}", f"w{number}", BEGAN_NS + number * 10**9, 10**7, "", "GET /", {})


def _run(chance: random.Random, number: int, outcomes: bool) -> list[Json]:
    trace, model = f"run{number}", chance.choice(MODELS)
    start = BEGAN_NS + number * 60 * 10**9 + chance.randrange(10**9)
    steps = chance.randrange(1, 7)
    spans: list[Json] = []
    messages = [message("user", f"Where is order W{number}? It's for café {number % 5}.")]
    at = start + 10**6
    failed_calls = 0
    for step in range(steps):
        call = f"call_{number}_{step}"
        last = step == steps - 1
        tool = chance.choice(TOOLS)
        arguments = {"order_id": f"W{number}", "n": step}
        answer = (
            message("assistant", "It is on its way.")
            if last
            else {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": call, "name": tool, "arguments": arguments}],
            }
        )
        spans.append(
            span(trace, f"c{step}", at, 10**8 * (step + 1), "root", f"chat {model}", {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": model,
                "gen_ai.response.model": model, "gen_ai.usage.input_tokens": 100 + 50 * step,
                "gen_ai.usage.output_tokens": 12, "gen_ai.request.temperature": 0.5,
                "gen_ai.response.finish_reasons": ["stop" if last else "tool_call"],
                "gen_ai.input.messages": json.dumps(messages),
                "gen_ai.output.messages": json.dumps([answer]),
            })
        )  # fmt: skip
        messages = [*messages, answer]
        at += 10**8 * (step + 1) + 10**6
        if last:
            break
        bad = chance.random() < 0.2
        failed_calls += bad
        result = (
            "timeout: no answer in 5 s" if bad else f'{{"order": "W{number}", "state": "sent"}}'
        )
        spans.append(
            span(trace, f"t{step}", at, 5 * 10**6, "root", f"execute_tool {tool}", {
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool,
                "gen_ai.tool.call.id": call, "gen_ai.tool.call.arguments": json.dumps(arguments),
                "gen_ai.tool.call.result": result,
            }, error=result if bad else None)
        )  # fmt: skip
        messages = [
            *messages,
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": call, "response": result}],
            },
        ]
        at += 10**7
    about: Json = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
    events: list[Json] = []
    verdict = "failed" if failed_calls or chance.random() < 0.2 else "passed"
    if outcomes and number % 4 == 1:
        about["arc.outcome"] = verdict
    elif outcomes and number % 4 != 0:
        events.append(_evaluation(at, "pass" if verdict == "passed" else "fail"))
    spans.insert(0, span(trace, "root", start, at - start, "", "invoke_agent support", about))
    spans[0]["events"] = events
    return spans


def _evaluation(at: int, label: str) -> Json:
    given = {"gen_ai.evaluation.name": "resolved", "gen_ai.evaluation.score.label": label}
    return {"name": "gen_ai.evaluation.result", "timeUnixNano": str(at), "attributes": pairs(given)}


def message(role: str, text: str) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def span(
    trace: str, name: str, start: int, took: int, parent: str, title: str, attributes: Json,
    *, error: str | None = None,
) -> Json:  # fmt: skip
    found: Json = {
        "traceId": hexed(trace, 32), "spanId": hexed(name, 16), "name": title,
        "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + took),
        "attributes": [{"key": key, "value": typed(value)} for key, value in attributes.items()],
        "status": {"code": 2, "message": error} if error else {},
    }  # fmt: skip
    if parent:
        found["parentSpanId"] = hexed(parent, 16)
    return found
