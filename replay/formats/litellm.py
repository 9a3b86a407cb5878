"""What a provider's answer says beside its words, as LiteLLM passes it on to an agent.

Agents that call models through LiteLLM keep the answer whole: an OpenAI chat completion, or an
object of the Responses API. Input counts include the cache; answers whose counts are all zero are
what gateways write when they do not know.
"""

from __future__ import annotations

from typing import Any

from replay.formats.fields import known, listed, obj, word
from replay.formats.normal import count, recorded, stop, total_usage, usd
from replay.messages import content_text
from replay.trace import Cost, Json, Message, Response, Usage


def usage(raw: Json) -> Usage | None:
    """Tokens of a chat completion or of the Responses API; None where they are unknown."""
    given = obj(raw)
    reading = obj(given.get("prompt_tokens_details")) or obj(given.get("input_tokens_details"))
    writing = obj(given.get("completion_tokens_details")) or obj(given.get("output_tokens_details"))
    return total_usage(
        _first(given, "prompt_tokens", "input_tokens"),
        _first(given, "completion_tokens", "output_tokens"),
        reasoning=count(writing.get("reasoning_tokens")),
        read=_first({**reading, **given}, "cached_tokens", "cache_read_input_tokens"),
        write=_first({**reading, **given}, "cache_creation_input_tokens", "cache_creation_tokens"),
    )


def _first(given: dict[str, Any], *names: str) -> int | None:
    """The first count under these names that says something; a zero yields to a later one."""
    found = [number for name in names if (number := count(given.get(name))) is not None]
    return next((number for number in found if number), found[0] if found else None)


def cost(amount: Json, tokens: Usage | None) -> Cost | None:
    """The recorded cost; zero beside unknown tokens is no figure."""
    found = usd(amount)
    return None if found == 0 and tokens is None else recorded(found)


def choice(answer: dict[str, Any]) -> dict[str, Any]:
    """The first choice of a chat completion, {} where there is none."""
    return obj(next(iter(listed(answer.get("choices"))), None))


def response(answer: dict[str, Any]) -> Response:
    """Id, model and stop reason of an answer, its message left out."""
    raw = choice(answer).get("finish_reason")
    if answer.get("object") == "response":
        raw = obj(answer.get("incomplete_details")).get("reason") or _ended(answer)
    return Response(
        id=word(answer.get("id")),
        model=word(answer.get("model")),
        stop=stop(_WORDS.get(str(raw), raw)),
        stop_raw=word(raw),
    )


_WORDS = {"max_output_tokens": "max_tokens", "completed": "stop", "failed": "error"}


def _ended(answer: dict[str, Any]) -> Json:
    """A Responses object that is complete stopped for its calls, where it has any."""
    status = answer.get("status")
    items = [obj(item).get("type") for item in listed(answer.get("output"))]
    return "tool_calls" if status == "completed" and "function_call" in items else status


# --- the Responses API as chat messages


def said(answer: dict[str, Any]) -> Message:
    """The assistant message of a Responses object: texts, calls, the summary of its reasoning."""
    words: list[str] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for item in map(obj, listed(answer.get("output"))):
        kind = item.get("type")
        if kind == "message":
            words.append(content_text(item.get("content")))
        elif kind == "reasoning":
            thoughts.extend(_summary(item))
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            name = item.get("call_id") or item.get("id")
            calls.append({"id": name, "type": "function", "function": function})
    body: dict[str, Json] = {"role": "assistant", "content": "\n".join(filter(None, words)) or None}
    return Message(
        dialect="openai",
        body={**body, **known(tool_calls=calls, reasoning_content="\n".join(thoughts))},
    )


def _summary(item: dict[str, Any]) -> list[str]:
    parts = [*listed(item.get("summary")), *listed(item.get("content"))]
    return [text for part in parts if (text := word(obj(part).get("text")))]


def reasons(answer: dict[str, Any]) -> bool:
    """Does a Responses object hold reasoning items? A chat message cannot carry them on."""
    return any(obj(item).get("type") == "reasoning" for item in listed(answer.get("output")))


def returned(item: dict[str, Any]) -> Message:
    """The tool message of a `function_call_output` item."""
    given = item.get("output")
    content = given if isinstance(given, str) else content_text(given)
    body = {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
    return Message(dialect="openai", body=body)
