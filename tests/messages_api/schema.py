"""The shape of a request, field by field: what may stand where, and nothing else.

Rules that join several places are `refusal`'s. Fields that the API knows and no client of ours may
send (containers, MCP servers, files by address) are missing on purpose: sending one is an error.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

NAME = r"^[a-zA-Z0-9_-]{1,128}$"
CUSTOM_ID = r"^[a-zA-Z0-9_-]{1,64}$"

Name = Annotated[str, Meta(pattern=NAME)]
Count = Annotated[int, Meta(ge=0)]


class Strict(Struct, forbid_unknown_fields=True):
    """An object without further fields."""


class Marker(Strict):
    """A breakpoint of the prompt cache."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


# --- content blocks


class Tagged(Strict, tag_field="type"):
    """An object that its `type` tells from its siblings."""


class Base64(Tagged, tag="base64"):
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp", "application/pdf"]
    data: str


class PlainText(Tagged, tag="text"):
    media_type: Literal["text/plain"]
    data: str


class ServerBlock(Struct, tag_field="type"):
    """Something the provider's own tools did; its fields and its place are not looked into."""


class ServerToolUse(ServerBlock, tag="server_tool_use"): ...


class WebSearched(ServerBlock, tag="web_search_tool_result"): ...


class WebFetched(ServerBlock, tag="web_fetch_tool_result"): ...


class CodeRan(ServerBlock, tag="code_execution_tool_result"): ...


class BashRan(ServerBlock, tag="bash_code_execution_tool_result"): ...


class EditorRan(ServerBlock, tag="text_editor_code_execution_tool_result"): ...


class ToolsSearched(ServerBlock, tag="tool_search_tool_result"): ...


Server = ServerToolUse | WebSearched | WebFetched | CodeRan | BashRan | EditorRan | ToolsSearched


class Text(Tagged, tag="text"):
    text: str
    cache_control: Marker | None = None
    citations: list[dict[str, Any]] | None = None


class Image(Tagged, tag="image"):
    source: Base64 | PlainText
    cache_control: Marker | None = None
    transformations: dict[str, Any] | None = None


class Document(Tagged, tag="document"):
    source: Base64 | PlainText
    cache_control: Marker | None = None
    citations: dict[str, Any] | None = None
    context: str | None = None
    title: str | None = None


class SearchResult(Tagged, tag="search_result"):
    source: str
    title: str
    content: list[Text]
    cache_control: Marker | None = None
    citations: dict[str, Any] | None = None


class ToolUse(Tagged, tag="tool_use"):
    id: Name
    name: Name
    input: dict[str, Any]
    cache_control: Marker | None = None
    caller: dict[str, Any] | None = None
    toolset_name: str | None = None


class ToolResult(Tagged, tag="tool_result"):
    tool_use_id: Name
    content: str | list[Text | Image | Document | SearchResult | Server] = ""
    is_error: bool = False
    cache_control: Marker | None = None
    toolset_name: str | None = None


class Thinking(Tagged, tag="thinking"):
    thinking: str
    signature: str


class RedactedThinking(Tagged, tag="redacted_thinking"):
    data: str


Block = Text | Image | Document | SearchResult | ToolUse | ToolResult | Thinking | RedactedThinking


class Said(Strict):
    """One message of a conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block | Server]


# --- the fields beside


class Tool(Strict):
    name: Name
    input_schema: dict[str, Any]
    description: str = ""
    strict: bool = False
    type: Literal["custom"] | None = None
    cache_control: Marker | None = None
    input_examples: list[dict[str, Any]] = []
    eager_input_streaming: bool | None = None


class AutoChoice(Tagged, tag="auto"):
    disable_parallel_tool_use: bool = False


class AnyChoice(Tagged, tag="any"):
    disable_parallel_tool_use: bool = False


class NoChoice(Tagged, tag="none"): ...


class NamedChoice(Tagged, tag="tool"):
    name: Name
    disable_parallel_tool_use: bool = False


class BlockBinding(Strict):
    prefix_mismatch_behavior: Literal["error", "drop_block"] | None = None


class Adaptive(Tagged, tag="adaptive"):
    display: Literal["summarized", "omitted"] | None = None
    block_binding: BlockBinding | None = None


class Enabled(Tagged, tag="enabled"):
    budget_tokens: Annotated[int, Meta(ge=1024)]
    display: Literal["summarized", "omitted"] | None = None
    block_binding: BlockBinding | None = None


class Disabled(Tagged, tag="disabled"): ...


class BetweenTools(Tagged, tag="between_tools"): ...


class JsonFormat(Strict):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(Strict):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonFormat | None = None


class Metadata(Strict):
    user_id: str | None = None


class Counted(Strict, kw_only=True):
    """What tokens can be counted for, and the part of a request that a model sees."""

    model: str
    messages: Annotated[list[Said], Meta(min_length=1)]
    system: str | list[Text] = "-"
    tools: list[Tool] = []
    tool_choice: AutoChoice | AnyChoice | NoChoice | NamedChoice | None = None
    thinking: Adaptive | Enabled | Disabled | BetweenTools | None = None
    output_config: OutputConfig | None = None
    cache_control: Marker | None = None


class Create(Counted, kw_only=True):
    """A request for a message. A limit of 0 fills the prompt cache and asks for nothing."""

    max_tokens: Count
    stop_sequences: list[str] = []
    stream: bool = False
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] = "auto"


class Compatible(Create, kw_only=True):
    """The same as a server of other models takes it: sampling settings as its models know them."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Count | None = None


class BatchItem(Strict):
    """One request of a batch. Its params are looked at when its turn comes, not before."""

    custom_id: Annotated[str, Meta(pattern=CUSTOM_ID)]
    params: dict[str, Any]


class BatchCreate(Strict):
    requests: Annotated[list[BatchItem], Meta(min_length=1, max_length=100_000)]


def shape_refusal(value: Any, shape: type[Strict]) -> str | None:
    """Where and how a value departs from a shape, None where it does not."""
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        why, _, at = str(error).partition(" - at ")
        return _sentence(why, _path(at))
    return None


_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`", re.S)
_MISSING = re.compile(r"Object missing required field `(.+)`", re.S)


def _path(at: str) -> str:
    """`$.messages[0].content` as `messages.0.content`."""
    return re.sub(r"\[(\d+|\.\.\.)\]", r".\1", at.strip("`")).removeprefix("$").removeprefix(".")


def _sentence(why: str, path: str) -> str:
    for pattern, said in (
        (_UNKNOWN, "Extra inputs are not permitted"),
        (_MISSING, "Field required"),
    ):
        found = pattern.fullmatch(why)
        if found is not None:
            return f"{'.'.join(filter(None, [path, found[1]]))}: {said}"
    return f"{path}: {why}" if path else why


for _shape in (
    Create,
    Compatible,
    Counted,
    BatchCreate,
):  # first used by one thread: several at once crash
    msgspec.json.Decoder(_shape)
