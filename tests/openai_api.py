"""Answers as OpenAI's two APIs give them, whole and in events, for `tests.upstream`.

An agent that is offered the tool `weather` and asked for it calls it once; else it is told what it
said.
"""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from tests.upstream import Asked, Reply

Body = dict[str, Any]
USAGE: Body = {
    "prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27,
    "prompt_tokens_details": {"cached_tokens": 4},
}  # fmt: skip
EVENTS = (("Content-Type", "text/event-stream; charset=utf-8"), ("X-Request-Id", "req_1"))
ARGUMENTS = '{"city": "Rome"}'


def answer(asked: Asked) -> Reply:
    """What either API answers."""
    body: Body = json.loads(asked.body or b"{}")
    if asked.path.endswith("/chat/completions"):
        return chat(body)
    if asked.path.endswith("/responses"):
        return response(body)
    return Reply(pieces=[b'{"object": "list", "data": []}'])


def chat(body: Body) -> Reply:
    last = body["messages"][-1]
    calls = last["role"] == "user" and bool(body.get("tools"))
    name = f"chatcmpl-{len(body['messages'])}-{crc32(str(last['content']).encode())}"
    outer = {"id": name, "object": "chat.completion", "created": 1, "model": "gpt-test-1"}
    message: Body = {"role": "assistant", "content": None if calls else f"So {last['content']}."}
    if calls:
        function = {"name": "weather", "arguments": ARGUMENTS}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    why = "tool_calls" if calls else "stop"
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": why}
        return Reply(pieces=[json.dumps({**outer, "choices": [choice], "usage": USAGE}).encode()])
    return Reply(pieces=chunks(outer, message, why), headers=EVENTS, chunked=True)


def chunks(outer: Body, message: Body, why: str, usage: Body | None = USAGE) -> list[bytes]:
    """The pieces of a streamed completion; without usage where the client did not ask for it."""
    outer = {**outer, "object": "chat.completion.chunk"}
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in (message["content"] or "").partition(" ") if word]
    for at, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        begun = {**call, "index": at, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        deltas += [
            {"tool_calls": [{"index": at, "function": {"arguments": part}}]}
            for part in (function["arguments"][:5], function["arguments"][5:])
        ]
    made = [{**outer, "choices": [{"index": 0, "delta": each}]} for each in deltas]
    made.append({**outer, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]})
    if usage is not None:
        made.append({**outer, "choices": [], "usage": usage})
    return [
        *(b"data: " + json.dumps(each).encode() + b"\n\n" for each in made),
        b"data: [DONE]\n\n",
    ]


def response(body: Body) -> Reply:
    given = body["input"]
    last = given[-1] if isinstance(given, list) else {"role": "user", "content": given}
    calls = last.get("role") == "user" and bool(body.get("tools"))
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
    item: Body
    if calls:
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather",
                "arguments": ARGUMENTS, "status": "completed"}  # fmt: skip
    else:
        text = {"type": "output_text", "text": f"So {last.get('content', last.get('output'))}.",
                "annotations": []}  # fmt: skip
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [text]}  # fmt: skip
    output = [thought, item] if calls else [item]
    usage = {"input_tokens": 20, "output_tokens": 7, "total_tokens": 27,
             "input_tokens_details": {"cached_tokens": 4},
             "output_tokens_details": {"reasoning_tokens": 3}}  # fmt: skip
    whole = {
        "id": f"resp_{crc32(str(given).encode())}", "object": "response", "created_at": 1,
        "status": "completed", "model": "gpt-test-1", "output": output, "usage": usage,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    if not body.get("stream"):
        return Reply(pieces=[json.dumps(whole).encode()])
    return Reply(pieces=[*events(whole)], headers=EVENTS, chunked=True)


def events(whole: Body) -> list[bytes]:
    """The pieces of a streamed response."""
    made: list[Body] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    ]
    for at, item in enumerate(whole["output"]):
        made.append({"type": "response.output_item.added", "output_index": at, "item": item})
        if item["type"] == "message":
            made += [
                {"type": "response.output_text.delta", "output_index": at, "content_index": 0,
                 "item_id": item["id"], "delta": part}
                for part in item["content"][0]["text"].partition(" ")
            ]  # fmt: skip
        made.append({"type": "response.output_item.done", "output_index": at, "item": item})
    made.append({"type": "response.completed", "response": whole})
    return [
        f"event: {each['type']}\ndata: {json.dumps({**each, 'sequence_number': at})}\n\n".encode()
        for at, each in enumerate(made)
    ]
