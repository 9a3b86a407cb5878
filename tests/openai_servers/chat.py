"""An answer as Chat Completions sends it: whole, and in chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tests.openai_servers.policy import CHARACTERS_PER_TOKEN, Call, Said, pieces
from tests.openai_servers.prompt_cache import Reading
from tests.openai_servers.shape import Body

CREATED = 1_790_000_000


class Piece(Struct, frozen=True):
    """A piece of a stream; `part` says what it is, for a fault that breaks the stream there."""

    raw: bytes
    part: str = "delta"


def completion(body: Body, number: str, answers: list[Said], usage: Body) -> Body:
    """The whole answer; one choice for each of `answers`."""
    choices = []
    for index, each in enumerate(answers):
        choice = {
            "index": index,
            "message": _message(body, f"{number}{index}", each),
            "logprobs": _logprobs(body, each.text) if body.get("logprobs") else None,
            "finish_reason": finish_reason(body, each),
        }
        choices.append(choice)
    return {**_outer(body, number), "object": "chat.completion", "choices": choices, "usage": usage}


def usage(reading: Reading, answers: list[Said], *, charged: bool) -> Body:
    """The figures; with `charged`, what was written into the cache is among them."""
    output = sum(each.output_tokens for each in answers)
    return {
        "prompt_tokens": reading.input_tokens,
        "completion_tokens": output,
        "total_tokens": reading.input_tokens + output,
        "prompt_tokens_details": {
            "cached_tokens": reading.cached_tokens,
            "audio_tokens": 0,
            **({"cache_write_tokens": reading.written_tokens} if charged else {}),
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(each.reasoning_tokens for each in answers),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def seen(body: Body) -> list[Any]:
    """What the model sees of a request, in the order in which the prompt cache sees it."""
    before = [body.get("tools"), body.get("functions"), body.get("response_format")]
    return [*(each for each in before if each is not None), *body["messages"]]


def finish_reason(body: Body, said: Said) -> str:
    """A call that was forced by its name ends with `stop`, as every answer that is no call."""
    if said.finish:
        return said.finish
    if said.calls and "functions" in body:
        return "function_call"
    named = isinstance(body.get("tool_choice"), dict) and body["tool_choice"]["type"] == "function"
    return "tool_calls" if said.calls and not named else "stop"


def stream(body: Body, number: str, answers: list[Said], usage: Body) -> Iterator[Piece]:
    """The chunks: a role, texts, calls by their index, the reason of the end, then the usage."""
    options = body.get("stream_options") or {}
    outer = {**_outer(body, number), "object": "chat.completion.chunk"}
    counted = bool(options.get("include_usage"))
    if counted:
        outer["usage"] = None
    for index, each in enumerate(answers):
        for delta, part, logprobs in _deltas(body, f"{number}{index}", each):
            choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
            chunk = {**outer, "choices": [choice]}
            if options.get("include_obfuscation", True):
                chunk["obfuscation"] = "x" * (7 - len(json.dumps(delta)) % 7)
            yield _piece(chunk, part)
        ended = {"index": index, "delta": {}, "logprobs": None}
        last = {**ended, "finish_reason": finish_reason(body, each)}
        yield _piece({**outer, "choices": [last]}, "last")
    if counted:
        yield _piece({**outer, "choices": [], "usage": usage}, "usage")
    yield Piece(b"data: [DONE]\n\n", "done")


def broken(message: str) -> Piece:
    """An error in the middle of a stream."""
    error = {"message": message, "type": "server_error", "param": None, "code": None}
    return _piece({"error": error}, "error")


def _piece(chunk: Body, part: str) -> Piece:
    return Piece(b"data: " + json.dumps(chunk).encode() + b"\n\n", part)


def _outer(body: Body, number: str) -> Body:
    return {
        "id": f"chatcmpl-{number}",
        "created": CREATED,
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_test",
    }


def _message(body: Body, number: str, said: Said) -> Body:
    message: Body = {
        "role": "assistant",
        "content": said.text or (None if said.calls or said.refusal else ""),
        "refusal": said.refusal or None,
        "annotations": [],
    }
    if said.calls and "functions" in body:
        made = said.calls[0]
        message["function_call"] = {"name": made.name, "arguments": made.arguments}
    elif said.calls:
        message["tool_calls"] = [
            _call(f"{number}{at}", each, each.arguments) for at, each in enumerate(said.calls)
        ]
    return message


def _call(number: str, call: Call, arguments: str) -> Body:
    kind, field = ("custom", "input") if call.custom else ("function", "arguments")
    return {"id": f"call_{number}", "type": kind, kind: {"name": call.name, field: arguments}}


def _deltas(body: Body, number: str, said: Said) -> Iterator[tuple[Body, str, Body | None]]:
    silent = bool(said.calls or said.refusal) and not said.text
    first = {"role": "assistant", "content": None if silent else "", "refusal": None}
    if said.calls and "functions" in body:
        made = said.calls[0]
        yield {**first, "function_call": {"name": made.name, "arguments": ""}}, "delta", None
        for each in pieces(made.arguments):
            yield {"function_call": {"arguments": each}}, "arguments", None
        return
    yield first, "delta", None
    for each in pieces(said.text):
        logprobs = _logprobs(body, each) if body.get("logprobs") else None
        yield {"content": each}, "delta", logprobs
    for each in pieces(said.refusal):
        yield {"refusal": each}, "delta", None
    for at, call in enumerate(said.calls):
        yield {"tool_calls": [{"index": at, **_call(f"{number}{at}", call, "")}]}, "delta", None
        kind, field = ("custom", "input") if call.custom else ("function", "arguments")
        for each in pieces(call.arguments):
            yield {"tool_calls": [{"index": at, kind: {field: each}}]}, "arguments", None


def _logprobs(body: Body, text: str) -> Body:
    """One entry a token, the other candidates ever less likely."""
    cut = [text[at : at + CHARACTERS_PER_TOKEN] for at in range(0, len(text), CHARACTERS_PER_TOKEN)]
    most = body.get("top_logprobs") or 0
    return {
        "content": [
            {
                **_logprob(each, 0),
                "top_logprobs": [_logprob(each + "~" * rank, rank) for rank in range(most)],
            }
            for each in cut
        ],
        "refusal": None,
    }


def _logprob(token: str, rank: int) -> Body:
    return {"token": token, "logprob": -0.5 - rank, "bytes": list(token.encode())}


FILTERED = (
    b'data: {"choices": [], "created": 0, "id": "", "model": "", "object": "", '
    b'"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}\n\n'
)
"""With what a stream of Azure begins: a chunk of nothing."""
