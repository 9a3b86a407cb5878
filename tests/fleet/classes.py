"""Runs that show each class of failure that SQL counts, nearly show it, or do not: what happened in
each step, and the class that a rule and SQL both name, or only a rule, or neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.fleet.corpus import BEGAN_NS, Json, message, request, span

INVALID = "Error: invalid argument: amount is missing"
NO_TOOL = "Error: unknown tool"
GONE = "Error: order not found"
BUSY = "503 Service Unavailable"
RUNNING = "still running"


class Call(NamedTuple):
    """A call of a tool: what came back, and whether its span failed."""

    tool: str
    arguments: Json
    result: str
    failed: bool = False


class Case(NamedTuple):
    """A run: the calls of its steps, how its last model call ended, and the class it shows to SQL
    and to the rules, "" for none of those that SQL counts; `rule_only` a rule alone finds."""

    name: str
    calls: tuple[Call, ...]
    shows: str = ""
    rule_only: str = ""
    said: str = "It is on its way."
    stop: str = "stop"
    error: str = ""


def _get(n: int, result: str = "", *, failed: bool = False) -> Call:
    return Call("get_order", {"n": n}, result or f"order {n}", failed)


def _refund(n: int, result: str = INVALID, *, failed: bool = True, **more: Any) -> Call:
    return Call("refund_order", {"n": n, **more}, result, failed)


CASES = (
    Case("healthy", (_get(1), _get(2), _get(3))),
    # loop
    Case("three in a row", (_get(1), *[_get(2)] * 3), "loop"),
    Case("two in a row", (_get(1), *[_get(2)] * 2, _get(3))),
    Case("other results", (_get(1), _get(2, "a"), _get(2, "b"), _get(2, "c"))),
    Case("other arguments", (_get(1), _get(2, "a"), _get(3, "a"), _get(4, "a"))),
    Case("a cycle of two", (_get(1), _get(2)) * 3, "loop"),
    Case("a cycle of four", (_get(1), _get(2), _get(3), _get(4)) * 3, "loop"),
    Case("two cycles of four", (_get(1), _get(2), _get(3), _get(4)) * 2),
    Case("polling", (_get(1, RUNNING),) * 5),
    Case("polling for ever", (_get(1, RUNNING),) * 10, "loop"),
    Case("patience", (_get(1, BUSY, failed=True),) * 6 + (_get(1),)),
    Case("impatience", (_get(1, BUSY, failed=True),) * 7 + (_get(1),), "loop"),
    Case("the same error", (_get(1, GONE, failed=True),) * 3 + (_get(2),), "loop"),
    Case(
        "with others between",
        (_get(1, GONE, failed=True), _get(2), _get(1, GONE, failed=True), _get(3),
         _get(1, GONE, failed=True), _get(4)),
        rule_only="loop",
    ),
    # bad args
    Case("refused", (_get(1), _refund(1)), "bad args"),
    Case("put right", (_get(1), _refund(1), _refund(2, "done", failed=False))),
    Case("refused for another reason", (_get(1), _refund(1, GONE))),
    Case(
        "refused three times",
        (_refund(1), _refund(2, "Error: invalid value"), _refund(3, "Error: missing field `a`"),
         _refund(4, "done", failed=False)),
        "bad args",
    ),
    Case("refused twice", (_refund(1), _refund(2, "Error: invalid value"),
                           _refund(4, "done", failed=False))),
    Case("on a file", (_get(1), _refund(1, path="a.txt")), rule_only="bad args"),
    Case("of a program", (_get(1), Call("python", {"code": "f()"}, INVALID, True))),
    # wrong tool
    Case("no such tool", (_get(1), Call("lookup", {"n": 1}, NO_TOOL, True)), "wrong tool"),
    Case("no such tool twice",
         (Call("lookup", {"n": 1}, NO_TOOL, True), _get(1), Call("lookup", {"n": 2}, NO_TOOL, True),
          _get(2)), "wrong tool"),
    Case("corrected", (Call("lookup", {"n": 1}, NO_TOOL, True), _get(1))),
    # gave up
    Case("silent", (_get(1),), "gave up", said=""),
    Case("no content", (_get(1),), "gave up", said="(no content)"),
    Case("idle", (), "gave up", said="It was sent yesterday."),
    Case("announced", (_get(1),), rule_only="gave up",
         said="I have found the order. Now I will look for the parcel."),
    # cap hit, serving error
    Case("cut off", (_get(1),), "other / cap hit", said="It is on", stop="length"),
    Case("cut off by Gemini", (_get(1),), "other / cap hit", said="It",
         stop="FinishReason.MAX_TOKENS"),
    Case("timed out", (_get(1),), "other / cap hit", said="", error="deadline exceeded", stop=""),
    Case("overloaded", (_get(1),), "other / serving error", said="", error="overloaded_error: busy",
         stop=""),
    Case("filtered", (_get(1),), said="I may not.", stop="content_filter"),
)  # fmt: skip


def write(path: Path) -> Path:
    """All cases, each as a run that failed."""
    with path.open("w") as file:
        for number, case in enumerate(CASES):
            file.write(json.dumps(request(_run(number, case), "support")) + "\n")
    return path


def trace_of(case: Case) -> str:
    return f"case{CASES.index(case)}"


_TOOLS = json.dumps(
    [{"type": "function", "name": name} for name in ("get_order", "refund_order", "python")]
)


def _run(number: int, case: Case) -> list[Json]:
    trace, at = f"case{number}", BEGAN_NS + number * 60 * 10**9
    about = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support",
        "arc.outcome": "failed",
    }  # fmt: skip
    spans = [span(trace, "root", at, 50 * 10**9, "", "invoke_agent support", about)]
    messages = [message("user", "Where is my order?")]
    for step, call in enumerate((*case.calls, None)):
        at += 10**9
        last = call is None
        id_ = f"call_{step}"
        told = {"type": "tool_call", "id": id_, "name": getattr(call, "tool", ""),
                "arguments": getattr(call, "arguments", {})}  # fmt: skip
        answer = message("assistant", case.said) if last else {"role": "assistant", "parts": [told]}
        asked = {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "claude-sonnet-4-5",
            "gen_ai.tool.definitions": _TOOLS, "gen_ai.input.messages": json.dumps(messages),
        }  # fmt: skip
        if not (last and case.error):
            asked["gen_ai.output.messages"] = json.dumps([answer])
            asked["gen_ai.response.finish_reasons"] = [case.stop if last else "tool_call"]  # type: ignore[assignment]
        spans.append(
            span(trace, f"c{step}", at, 10**8, "root", "chat", asked,
                  error=case.error if last else None)
        )  # fmt: skip
        if call is None:
            break
        messages = [*messages, answer, {"role": "tool", "parts": [
            {"type": "tool_call_response", "id": id_, "response": call.result}]}]  # fmt: skip
        spans.append(
            span(trace, f"t{step}", at + 2 * 10**8, 10**8, "root", f"execute_tool {call.tool}", {
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.tool,
                "gen_ai.tool.call.id": id_,
                "gen_ai.tool.call.arguments": json.dumps(call.arguments),
                "gen_ai.tool.call.result": call.result,
            }, error=call.result if call.failed else None)
        )  # fmt: skip
    return spans
