"""What formats share: fields of the right type, source words in ours, Python literals, LiteLLM's
answers.

Stop reasons, times, token counts and ids become ours; a field of another type than it should
have is taken for absent; literals are read, never run.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from datetime import UTC, datetime
from typing import Any, NamedTuple

from replay.depth import is_huge
from replay.formats.source import mended
from replay.messages import calls, content_text
from replay.trace import Cost, Json, Message, Place, Response, Status, Stop, TimeQuality, Usage


def obj(value: Json) -> dict[str, Any]:
    """The object, {} for anything else."""
    return value if isinstance(value, dict) else {}


def listed(value: Json) -> list[Json]:
    """The list, [] for anything else."""
    return value if isinstance(value, list) else []


def word(value: Json) -> str | None:
    """A text or a number as text, None for anything else and for nothing."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return str(value) or None


def known(**fields: Json) -> dict[str, Json]:
    """The fields that say something: None, "", {} and [] are left out."""
    return {name: value for name, value in fields.items() if value not in (None, "", {}, [])}


class Times(NamedTuple):
    start_ns: int | None
    end_ns: int | None
    quality: TimeQuality = "exact"


def times(event: dict[str, Any], otherwise: Json = None) -> Times:
    """From `timestamp` to `completed`; `otherwise` is a timestamp it must have ended by."""
    start, end = ns(event.get("timestamp")), ns(event.get("completed"))
    if start is None:
        return Times(None, end, "none")
    if end is None and not event.get("pending") and otherwise is not None:
        return Times(start, ns(otherwise), "derived")
    return Times(start, end)


def status_of(event: dict[str, Any], error: str | None) -> Status:
    """Pending is neither: the run ended before the call did."""
    if error is not None or event.get("failed"):
        return "error"
    return "unset" if event.get("pending") else "ok"


def place_of(event: dict[str, Any]) -> Place:
    """Where the event stands: under its uuid, which logs have since the autumn of 2025."""
    return Place(span=word(event.get("uuid")))


_WORDS: dict[Stop, str] = {
    "end": "end_turn stop_sequence stop submitted complete completed eos eos_token",
    "tool": "tool_use tool_calls tool_call function_call function_calls",
    "length": "max_tokens max_output_tokens length error_limit",
    "context": "model_length model_context_window_exceeded context_window_exceeded",
    "filter": "refusal content_filter content_filtered guardrail_intervened safety recitation"
    " blocklist prohibited_content spii image_safety image_prohibited_content error_toxic",
    "pause": "pause_turn",
    "compaction": "compaction",
    "error": "error failed malformed_function_call unexpected_tool_call too_many_tool_calls"
    " malformed_tool_use malformed_model_output",
}
"""The words of Anthropic, OpenAI (chat and Responses), Gemini, Bedrock, Cohere, Mistral, the AI SDK
and of the agents that have their own. What says that nothing is known (`unknown`, `other`) is not
among them."""

STOP_WORDS = {word: stop for stop, words in _WORDS.items() for word in words.split()}
_STOP_NAME = re.compile(r"<?(?:\w+\.)*(\w[\w-]*)(?::.*>)?", re.S)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONGEST_STOP = 200

MOST_NS = 2**63 - 1
"""The largest number that a database column holds; what lies beyond is no time."""

MOST_TOKENS = 2**40
"""Far more than any call has, and those of a database can still be summed."""

MOST_USD = 1e9
MOST_NUMBER = 1e300
"""What lies beyond cannot be summed as floats are; a whole number may be of any length."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d+))?\s*(Z|[+-]\d\d:?\d\d)?$")


def stop(raw: Json, answer: Message | None = None) -> Stop | None:
    """The normalised stop reason of a source's word, None where unknown.

    It may be written in any case and as the name of an enum (`FinishReason.MAX_TOKENS`). `answer`
    is what the model said, as for `stop_with`.
    """
    if not isinstance(raw, str) or len(raw) > _LONGEST_STOP:
        return None
    named = _STOP_NAME.fullmatch(raw.strip())
    shape = _HUMP.sub("_", named[1]).lower().replace("-", "_") if named is not None else ""
    return stop_with(STOP_WORDS.get(shape.removeprefix("finish_reason_")), answer)


def stop_with(said: Stop | None, answer: Message | None) -> Stop | None:
    """The stop reason of an answer: one that calls tools and ended, stopped for them. Gemini, the
    Responses API and some gateways have no word of their own for that."""
    return "tool" if said == "end" and answer is not None and calls(answer) else said


def ns(time: Json) -> int | None:
    """Nanoseconds since the epoch of an ISO 8601 text (naive means UTC), None where it is none.

    Works in integers throughout: a float cannot hold a nanosecond of this century.
    """
    found = _TIME.match(time.strip()) if isinstance(time, str) else None
    if found is None:
        return None
    seconds, fraction, zone = found.groups()
    zone = "+00:00" if zone in (None, "Z") else zone
    try:
        moment = datetime.fromisoformat(seconds.replace(" ", "T") + zone)
    except ValueError:
        return None
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    whole = delta.days * 86_400 + delta.seconds
    moment_ns = whole * 1_000_000_000 + int((fraction or "0").ljust(9, "0")[:9])
    return moment_ns if abs(moment_ns) <= MOST_NS else None


def seconds_ns(seconds: Json) -> int | None:
    """Nanoseconds of a number of seconds, to the microsecond a float can still hold."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    return round(seconds * 1_000_000) * 1000 if abs(seconds) <= MOST_NS // 10**9 else None


def ms_ns(ms: Json) -> int | None:
    """Nanoseconds of a time in milliseconds since the epoch, None where it is none."""
    if isinstance(ms, bool) or not isinstance(ms, (int, float)) or not 0 < ms < 2**43:
        return None
    return round(ms * 1000) * 1000


def count(value: Json) -> int | None:
    """A token count: a non-negative integer (or a text or whole float of one), else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isdecimal():
        value = int(value) if len(value) < 20 else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else None


def number(value: Json) -> float | None:
    """A number as a float (a truth value is 1 or 0), None for what is none, not finite or larger
    than a float can bear."""
    if not isinstance(value, (int, float)) or not abs(value) <= MOST_NUMBER:
        return None
    return float(value)


def usd(value: Json) -> float | None:
    """An amount of money, None for what cannot be one."""
    found = None if isinstance(value, bool) else number(value)
    return found if found is not None and 0 <= found < MOST_USD else None


def recorded(amount: float | None) -> Cost | None:
    """The cost that a source gives itself, None where it gives none."""
    return None if amount is None else Cost(usd=amount, source="recorded")


def anthropic_usage(raw: Json) -> Usage | None:
    """Anthropic's figures, where `input_tokens` leaves the cache out: ours are the total.

    All-zero usage is what gateways write when they do not know: None.
    """
    if not isinstance(raw, dict):
        return None
    fresh, out = count(raw.get("input_tokens")), count(raw.get("output_tokens"))
    read = count(raw.get("cache_read_input_tokens"))
    write = count(raw.get("cache_creation_input_tokens"))
    if not any((fresh, out, read, write)):
        return None
    parts = raw.get("cache_creation")
    hourly = count(parts.get("ephemeral_1h_input_tokens")) if isinstance(parts, dict) else None
    details = raw.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (write or 0),
        output_tokens=out,
        reasoning_tokens=count(details.get("thinking_tokens"))
        if isinstance(details, dict)
        else None,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_1h_tokens=hourly,
    )


def total_usage(
    total: int | None,
    out: int | None,
    *,
    reasoning: int | None = None,
    read: int | None = None,
    write: int | None = None,
) -> Usage | None:
    """Usage of a source whose input count includes the cache; all unknown or zero gives None.

    Where the cache figures exceed the total, the source broke its own convention: the total is
    then taken as exclusive and they are added.
    """
    if not any((total, out, read, write)):
        return None
    cached = (read or 0) + (write or 0)
    if total is not None and cached > total:
        total += cached
    return Usage(
        input_tokens=total,
        output_tokens=out,
        reasoning_tokens=reasoning,
        cache_read_tokens=read,
        cache_write_tokens=write,
    )


def derived_id(*parts: Any) -> str:
    """A span id for a source that has none: 16 hex digits of stable content."""
    text = "\x1f".join("" if part is None else str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.S)
"""One whole string literal."""

MAX_CHARS = 4 * 1024 * 1024
MAX_BRACKETS = 2_000
"""Opening brackets outside of strings; no call of a tool has more, and deep ones cost the stack."""


def string(text: str) -> str | None:
    """The value of one string literal, None where the text is none."""
    if len(text) > MAX_CHARS or STRING.fullmatch(text) is None:
        return None
    value = _evaluated(text.replace("\n", "\\n").replace("\r", "\\r"))
    return mended(value) if isinstance(value, str) else None


def literal(text: str) -> Json | None:
    """The value of a literal of plain data, None where the text is none or too large."""
    if len(text) > MAX_CHARS:
        return None
    bare = STRING.sub("", text)
    if sum(map(bare.count, "([{")) > MAX_BRACKETS:
        return None
    value = _evaluated(text)
    if not _plain(value):
        return None
    return mended(value) if "\\" in text else value


_MEMBER = re.compile(r"<\w+\.\w+: ('[^'\\]*'|\d+)>")
"""A member of an enumeration as Python prints it."""


def parse_repr(text: str) -> Json | None:
    """The value that Python prints as calls of constructors, `Name(field=…)`, as objects of their
    fields; a member of an enumeration is its value. None where the text is none or too large."""
    text = _MEMBER.sub(r"\1", text)
    if len(text) > MAX_CHARS or sum(map(STRING.sub("", text).count, "([{")) > MAX_BRACKETS:
        return None
    try:
        return _build(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _build(node: ast.expr) -> Json:
    """The value of an expression; raises ValueError where it is no plain data."""
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        if not ast.unparse(node.func).replace(".", "").isidentifier():
            raise ValueError("no constructor")
        return {each.arg: _build(each.value) for each in node.keywords if each.arg is not None}
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_build(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        keys = [ast.literal_eval(key) if key is not None else None for key in node.keys]
        return {str(key): _build(each) for key, each in zip(keys, node.values, strict=True)}
    value = ast.literal_eval(node)
    if not _plain(value):
        raise ValueError("no plain data")
    return value


def _evaluated(text: str) -> object:
    try:
        with warnings.catch_warnings():  # of escapes that no program would have written
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _plain(value: object) -> bool:
    """Is it what JSON can hold? A tuple, a set, bytes, an infinity or a huge number is not."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_plain, value))
    if isinstance(value, (int, float)):
        return not is_huge(value)
    return value is None or isinstance(value, str)


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
    chosen = choice(answer)
    raw, body = chosen.get("finish_reason"), chosen.get("message")
    message = Message(dialect="openai", body=body) if isinstance(body, dict) else None
    if answer.get("object") == "response":
        raw = obj(answer.get("incomplete_details")).get("reason") or answer.get("status")
        message = answer_text(answer)
    return Response(
        id=word(answer.get("id")),
        model=word(answer.get("model")),
        stop=stop(raw, message),
        stop_raw=word(raw),
    )


# --- the Responses API as chat messages


def answer_text(answer: dict[str, Any]) -> Message:
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


def reasoning(entry: dict[str, Any]) -> str | None:
    """What the model thought, where a step or an entry keeps it."""
    blocks = map(obj, listed(entry.get("thinking_blocks")))
    told = word(entry.get("reasoning_content"))
    return told or "\n".join(text for b in blocks if (text := word(b.get("thinking")))) or None
