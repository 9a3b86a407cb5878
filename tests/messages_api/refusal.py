"""What the API refuses, and the sentence it says it with.

`schema` knows the shape of a request; here are the rules that join several of its places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tests.messages_api import seal
from tests.messages_api.content import Body
from tests.messages_api.prefix import blocks_of, marker_refusal
from tests.messages_api.schema import Compatible, Counted, Create, Strict, shape_refusal

ALWAYS_THINKING = ("claude-opus-5-5", "claude-fable-5-1")
"""Models, by how their names begin, whose thinking stays on and that cannot be forced to a tool."""

SIGNATURE = (
    "Invalid signature in thinking block. The block is bound to a different conversation, "
    "or it has been changed"
)

_UNSUPPORTED = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength".split()
)
"""Keywords that the schema of an output may not use."""


def refusal(
    body: Body,
    shape: type[Strict] = Create,
    *,
    betas: Collection[str] = (),
    always_thinking: Collection[str] = ALWAYS_THINKING,
) -> str | None:
    """Why the API refuses a request body, None where it takes it. `shape` is Create or Counted.

    A model of another name stands for a server of another kind that speaks the same protocol: it
    takes sampling settings, which the API itself refuses.
    """
    if shape is Create and "claude" not in str(body.get("model", "claude")):
        shape = Compatible
    wrong = shape_refusal(body, shape)
    if wrong is not None:
        return wrong
    rules = (_model_refusals(body, always_thinking), _refusals(body, betas))
    return next((wrong for each in rules for wrong in each), None)


def count_refusal(body: Body, **beside: Any) -> str | None:
    """The same for a request to count tokens."""
    return refusal(body, Counted, **beside)


def _model_refusals(body: Body, always_thinking: Collection[str]) -> Iterator[str]:
    if not body["model"].startswith(tuple(always_thinking)):
        return
    if _kind(body, "tool_choice") in {"any", "tool"}:
        yield "tool_choice: forced tool use is not supported by this model"
    if _kind(body, "thinking") == "disabled":
        yield "thinking.type: thinking cannot be disabled for this model"


def _refusals(body: Body, betas: Collection[str]) -> Iterator[str]:
    if "system" in body and not _texts_are_full(body["system"]):
        yield "system: text content blocks must be non-empty"
    if not all(each.strip() for each in body.get("stop_sequences", [])):
        yield "stop_sequences: each stop sequence must contain non-whitespace"
    yield from _tool_refusals(body)
    yield from _thinking_refusals(body, betas)
    yield from _format_refusals(body)
    yield from _message_refusals(body["messages"])
    wrong = marker_refusal(body)
    if wrong is not None:
        yield wrong
    if not (seal.BINDING_BETA in betas and seal.drops(body)):
        yield from (f"{each.path}: {SIGNATURE}" for each in seal.broken(body))


def _kind(body: Body, field: str) -> str | None:
    return (body.get(field) or {}).get("type")


def _tool_refusals(body: Body) -> Iterator[str]:
    tools = body.get("tools") or []
    for at, tool in enumerate(tools):
        if tool["input_schema"].get("type") != "object":
            yield f"tools.{at}.input_schema.type: Field required"
    names = {tool["name"] for tool in tools}
    if len(names) < len(tools):
        yield "tools: Tool names must be unique"
    if _kind(body, "tool_choice") and not tools:
        yield "tool_choice: may only be specified while providing tools"
    if _kind(body, "tool_choice") == "tool" and body["tool_choice"]["name"] not in names:
        yield f"tool_choice: tool '{body['tool_choice']['name']}' not found in provided tools"


def _thinking_refusals(body: Body, betas: Collection[str]) -> Iterator[str]:
    thinking = body.get("thinking") or {}
    if "block_binding" in thinking and seal.BINDING_BETA not in betas:
        yield "thinking.block_binding: Extra inputs are not permitted"
    if thinking.get("type") == "enabled":
        if thinking["budget_tokens"] >= body.get("max_tokens", float("inf")):
            yield "max_tokens: must be greater than thinking.budget_tokens"
        if _kind(body, "tool_choice") in {"any", "tool"}:
            yield "tool_choice: thinking may not be enabled when tool_choice forces tool use"


def _format_refusals(body: Body) -> Iterator[str]:
    asked = (body.get("output_config") or {}).get("format")
    if asked is not None:
        yield from _output_refusals("output_config.format.schema", asked["schema"])


def _output_refusals(where: str, schema: Any) -> Iterator[str]:
    """Only closed objects and no bounds: what an output can be held to while it is written."""
    if isinstance(schema, list):
        for at, each in enumerate(schema):
            yield from _output_refusals(f"{where}.{at}", each)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield f"{where}: for 'object' type, 'additionalProperties' must be explicitly set to false"
    for name, value in schema.items():
        if name in _UNSUPPORTED:
            yield f"{where}: '{name}' is not supported"
        if name in {"properties", "$defs"} and isinstance(value, dict):
            for each in value:
                yield from _output_refusals(f"{where}.{name}.{each}", value[each])
        elif name in {"items", "anyOf", "allOf"}:
            yield from _output_refusals(f"{where}.{name}", value)


def _message_refusals(said: list[Body]) -> Iterator[str]:
    if said[0]["role"] != "user":
        yield "messages: first message must use the user role"
    if said[-1]["role"] == "assistant":
        yield "messages: this model does not support assistant message prefill"
    waiting: list[str] = []
    for at, each in enumerate(said):
        where = f"messages.{at}"
        if at and each["role"] == said[at - 1]["role"]:
            yield f"{where}: roles must alternate"
        if not _texts_are_full(each["content"]):
            yield f"{where}: text content blocks must be non-empty"
        blocks = blocks_of(each["content"])
        yield from _result_refusals(where, blocks, waiting)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(waiting)) < len(waiting):
            yield f"{where}: `tool_use` ids must be unique"
        for block in blocks:
            yield from _block_refusals(where, each["role"], block)
    if waiting:
        yield "messages: `tool_use` ids were found without `tool_result` blocks"


def _result_refusals(where: str, blocks: list[Body], waiting: list[str]) -> Iterator[str]:
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if set(answered) - set(waiting):
        yield f"{where}: unexpected `tool_use_id` found in `tool_result` blocks"
    if set(waiting) - set(answered):
        yield f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after"
    if len(set(answered)) < len(answered):
        yield f"{where}: each tool_use must have a single result"
    kinds = [block["type"] == "tool_result" for block in blocks]
    if kinds != sorted(kinds, reverse=True):
        yield f"{where}: tool_result blocks must come first"


_SPEAKERS = {
    "text": ("user", "assistant", "system"),
    "tool_use": ("assistant",),
    "thinking": ("assistant",),
    "redacted_thinking": ("assistant",),
    "tool_result": ("user",),
    "image": ("user",),
    "document": ("user",),
    "search_result": ("user",),
}
"""Who may send a kind of block; of the provider's own blocks it is not asked."""


def _block_refusals(where: str, role: str, block: Body) -> Iterator[str]:
    kind = block["type"]
    if role not in _SPEAKERS.get(kind, (role,)):
        yield f"{where}: `{kind}` blocks are not permitted in `{role}` messages"
    inside = block.get("content")
    if kind == "tool_result" and isinstance(inside, list) and not _texts_are_full(inside or "-"):
        yield f"{where}: text content blocks must be non-empty"


def _texts_are_full(content: Any) -> bool:
    blocks = blocks_of(content)
    return bool(blocks) and all(
        block["text"].strip() for block in blocks if block["type"] == "text"
    )
