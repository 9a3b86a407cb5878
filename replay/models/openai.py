"""OpenAI's two APIs, as wires: how they are connected to, and how their answers are read.

The bytes that are posted are ours, not the SDK's; it brings the connection, the key and the
headers. An answer becomes a message of the Messages API, which is what everything above reads: its
texts and refusals, calls with their arguments parsed, why it stopped, and its figures.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from replay import digests
from replay.errors import ModelRefused
from replay.formats.common import count, listed, obj, word
from replay.messages import content_text, parse_arguments
from replay.models.connection import SdkConnection
from replay.models.protocol import AZURE_VARIABLE, is_local
from replay.models.wire import (
    STREAM_ABOVE,
    BrokenStream,
    Connection,
    NoMessage,
    ServerFailed,
    events,
    output_limit,
)
from replay.openai_items import reasoning_item
from replay.openai_streams import assembled_chat, assembled_response
from replay.providers import RESPONSES as RESPONSES_PROVIDER
from replay.providers import UNSEALED, reasons

Body = dict[str, Any]

KEY_VARIABLE = "OPENAI_API_KEY"
AZURE_KEY_VARIABLE = "AZURE_OPENAI_API_KEY"
TOKEN_VARIABLE = "AZURE_OPENAI_AD_TOKEN"
VERSION_VARIABLE = "OPENAI_API_VERSION"
INSTALL = "Try: pip install 'arc-tui[openai]'"
NOT_INSTALLED = "OpenAI's APIs need the package openai, which is not installed"


class Azure(NamedTuple):
    """What an API is asked with on Azure. `version` is one that was configured, None for that of
    the environment."""

    version: str | None

    def effective_version(self) -> str | None:
        """The version that is asked for, None where nothing says one."""
        return self.version or os.environ.get(VERSION_VARIABLE)


class OpenAI(NamedTuple):
    """As `wire.Wire`. `key_variable` names what the key is in; `azure` None is any other server."""

    title: str
    path: str
    read: Callable[[Any], Body]
    assemble: Callable[[Iterable[dict[str, Any]]], tuple[dict[str, Any] | None, Any, bool]]
    beside: Body
    streamed: Body
    reasoning: Body = {}
    """What a model that reasons is asked for, so that its reasoning can be sent back."""
    key_variable: str = KEY_VARIABLE
    azure: Azure | None = None

    @property
    def key_hint(self) -> str:
        if self.azure is not None:
            also = f", or {TOKEN_VARIABLE}" if self.key_variable == AZURE_KEY_VARIABLE else ""
            return f"Try: set {self.key_variable}{also}"
        return f"Try: set {self.key_variable}, or OPENAI_BASE_URL to a local server"

    @property
    def other_kind(self) -> str:
        if self.azure is not None:
            return f"Try: set {AZURE_VARIABLE} to a resource, as https://NAME.openai.azure.com"
        return f"Try: set OPENAI_BASE_URL to a server with {self.title}"

    def connect(self, base_url: str) -> Connection:
        return connect(base_url, self)

    def body_to_post(self, body: Body) -> Body:
        long = self.streamed if output_limit(body) > STREAM_ABOVE else {}
        return {**self.whole_body(body), **long}

    def whole_body(self, body: Body) -> Body:
        """The body as it is posted where no answer can be streamed."""
        sealed = self.reasoning if reasons(body["model"]) else {}
        return {**body, **self.beside, **sealed}

    def message(self, body: bytes, *, streamed: bool) -> Body:
        if not streamed:
            return self.read(msgspec.json.decode(body))
        found, error, whole = self.assemble(events(body))
        if error:
            said = obj(error)
            kind = word(said.get("code")) or word(said.get("type")) or "error"
            raise BrokenStream(word(said.get("message")) or str(error), kind)
        if found is None or not whole:
            raise BrokenStream("no final event")
        return self.read(found)

    def request_hint(self, said: str) -> str:
        if "max_tokens" in said and "max_completion_tokens" in said:
            return "the server takes `max_completion_tokens`; the recording has `max_tokens`"
        if "encrypted content" in said:
            return (
                "the server reads recorded reasoning only for the account that recorded it."
                f" Try: --model {UNSEALED.name}:NAME, which is sent none"
            )
        if "/v1/responses" in said:
            return f"Try: --model {RESPONSES_PROVIDER.name}:NAME"
        if "response_format" in said or "json_schema" in said:
            return "the server's models do not all take a schema for their answers"
        return ""


def connect(base_url: str, wire: OpenAI) -> Connection:
    """A connection to a server, with the key that the environment names.

    Raises ModelRefused where there is no key, which a server on this machine does not need, and
    where the SDK is not installed.
    """
    key = require_key(base_url, wire)
    import httpx2
    import openai

    # What the package remarks would land in the middle of a screen.
    logging.getLogger("openai").addHandler(logging.NullHandler())
    beside: dict[str, Any] = {
        "max_retries": 0,
        # A proxy from the environment must not stand between this machine and itself.
        "http_client": httpx2.AsyncClient(trust_env=False) if is_local(base_url) else None,
    }
    if wire.azure is None:
        client = openai.AsyncOpenAI(api_key=key, base_url=base_url, **beside)
    else:
        client = openai.AsyncAzureOpenAI(
            api_key=key,  # None: a token is in the environment
            azure_endpoint=base_url,
            api_version=wire.azure.effective_version(),
            **beside,
        )
    return SdkConnection(
        client, openai, lambda body: {} if body is None else {"content": digests.pack(body)}
    )


def require_key(base_url: str, wire: OpenAI) -> str | None:
    """The key for a server; any text for one on this machine, which needs none. None where Azure is
    asked with a token of the environment.

    Raises ModelRefused where there is none, where Azure's endpoint or version is not known, and
    where the SDK is not installed. Imports nothing.
    """
    if find_spec("openai") is None:
        raise ModelRefused(NOT_INSTALLED, INSTALL)
    if wire.azure is not None and not base_url:
        raise ModelRefused(f"{wire.title}: {AZURE_VARIABLE} is not set", wire.other_kind)
    if wire.azure is not None and not wire.azure.effective_version():
        raise ModelRefused(
            f"{wire.title}: no version of its API given",
            f"Try: set {VERSION_VARIABLE}, or `api_version` in a section [models.NAME]",
        )
    key = os.environ.get(wire.key_variable)
    if not key and wire.azure is not None and os.environ.get(TOKEN_VARIABLE):
        return None
    if not key and not is_local(base_url):
        raise ModelRefused(f"no key for {wire.title}", wire.key_hint)
    return key or "local"


def azure(wire: OpenAI, deployment: str, version: str | None) -> OpenAI:
    """The same API of a deployment on Azure. A chat has it in its path; the SDK, which is given
    bytes, cannot put it there."""
    path = wire.path
    if wire.read is chat_message:
        path = f"/deployments/{quote(deployment, safe='')}{path}"
    return wire._replace(
        title=f"{wire.title} of Azure OpenAI",
        path=path,
        key_variable=AZURE_KEY_VARIABLE,
        azure=Azure(version),
    )


# --- Chat Completions

_CHAT_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def chat_message(answer: Any) -> Body:
    """The message in a chat completion. Raises NoMessage where it is none."""
    if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
        raise NoMessage("no choices")
    choice = obj(next(iter(answer["choices"]), None))
    said, why = choice.get("message"), choice.get("finish_reason")
    if not isinstance(said, dict):
        raise NoMessage("no message")
    if not isinstance(why, str):
        raise NoMessage("no finish reason")
    content: list[Body] = []
    thought = word(said.get("reasoning_content")) or word(said.get("reasoning"))
    if thought:
        content.append({"type": "thinking", "thinking": thought})
    refusal = word(said.get("refusal"))
    text = content_text(said.get("content")) or refusal
    if text:
        content.append({"type": "text", "text": text})
    calls = listed(said.get("tool_calls"))
    if isinstance(said.get("function_call"), dict):
        calls = [*calls, {"function": said["function_call"]}]
    content += [_chat_call(obj(call), place) for place, call in enumerate(calls)]
    stop = _CHAT_STOPS.get(why, why)
    if refusal and not calls:
        stop = "refusal"
    elif calls and stop == "end_turn":  # some servers say so
        stop = "tool_use"
    return _messages_form(answer, content, stop, _chat_usage(obj(answer.get("usage"))))


def _chat_call(call: Body, place: int) -> Body:
    function, custom = call.get("function"), call.get("custom")
    if isinstance(custom, dict):
        given: Any = {"input": custom.get("input")}
        name = custom.get("name")
    else:
        name = obj(function).get("name")
        given = arguments(obj(function).get("arguments"))
    if not isinstance(name, str):
        raise NoMessage("a tool call without a name")
    return {"type": "tool_use", "id": word(call.get("id")) or f"{place}", "name": name,
            "input": given}  # fmt: skip


def arguments(raw: Any) -> Body:
    """The arguments of a call, as `_raw` where they do not parse to an object."""
    parsed, text = parse_arguments(raw)
    if isinstance(parsed, dict):
        return parsed
    return {"_raw": text if text is not None else parsed if parsed is not None else raw}


def _chat_usage(usage: Body) -> Body:
    return _usage(
        count(usage.get("prompt_tokens")),
        count(usage.get("completion_tokens")),
        cached=count(obj(usage.get("prompt_tokens_details")).get("cached_tokens")),
        reasoned=count(obj(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )


# --- Responses

_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


def response_message(answer: Any) -> Body:
    """The message in a response. Raises NoMessage where it is none, ServerFailed where the server
    says that it failed."""
    if not isinstance(answer, dict) or not isinstance(answer.get("output"), list):
        raise NoMessage("no output")
    status = answer.get("status")
    if status == "failed":
        error = obj(answer.get("error"))
        raise ServerFailed(
            word(error.get("message")) or "failed", word(error.get("code")) or "server_error"
        )
    if status not in {"completed", "incomplete"}:
        raise NoMessage(f"its status is {status}")
    content: list[Body] = []
    refused = False
    for item in map(obj, answer["output"]):
        match item.get("type"):
            case "message":
                parts = [obj(part) for part in listed(item.get("content"))]
                refused = refused or any(part.get("type") == "refusal" for part in parts)
                text = content_text(parts)
                content += [{"type": "text", "text": text}] if text else []
            case "reasoning":
                thoughts = [*listed(item.get("summary")), *listed(item.get("content"))]
                text = "\n".join(str(obj(each).get("text") or "") for each in thoughts).strip()
                kept = item.get("encrypted_content") or item.get("content")
                back = {"item": reasoning_item(item)} if kept else {}
                content += [{"type": "thinking", "thinking": text, **back}] if text or back else []
            case "function_call":
                content.append(_item_call(item, arguments(item.get("arguments"))))
            case "custom_tool_call":
                content.append(_item_call(item, {"input": item.get("input")}))
            case _:  # what the provider ran itself; nothing that does is offered
                pass
    calls = any(block["type"] == "tool_use" for block in content)
    if status == "incomplete":
        why = word(obj(answer.get("incomplete_details")).get("reason")) or "max_output_tokens"
        stop = _INCOMPLETE.get(why, why)
    else:
        stop = "tool_use" if calls else "refusal" if refused else "end_turn"
    return _messages_form(answer, content, stop, _response_usage(obj(answer.get("usage"))))


def _item_call(item: Body, given: Body) -> Body:
    if not isinstance(item.get("name"), str):
        raise NoMessage("a tool call without a name")
    name = word(item.get("call_id")) or word(item.get("id")) or ""
    return {"type": "tool_use", "id": name, "name": item["name"], "input": given}


def _response_usage(usage: Body) -> Body:
    return _usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        cached=count(obj(usage.get("input_tokens_details")).get("cached_tokens")),
        reasoned=count(obj(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )


# --- both


def _usage(
    asked: int | None, said: int | None, *, cached: int | None, reasoned: int | None
) -> Body:
    """Figures in the words of the Messages API, where input leaves out what the cache gave."""
    found: Body = {} if said is None else {"output_tokens": said}
    if asked is not None:
        read = min(cached or 0, asked)
        found["input_tokens"] = asked - read
        found |= {"cache_read_input_tokens": read} if read else {}
    if reasoned:
        found["output_tokens_details"] = {"thinking_tokens": reasoned}
    return found


def _messages_form(answer: Body, content: list[Body], stop: str, usage: Body) -> Body:
    return {
        "id": word(answer.get("id")) or "",
        "type": "message",
        "role": "assistant",
        "model": word(answer.get("model")) or "",
        "content": content,
        "stop_reason": stop,
        "usage": usage,
    }


CHAT = OpenAI(
    title="the Chat Completions API",
    path="/chat/completions",
    read=chat_message,
    assemble=assembled_chat,
    beside={},
    streamed={"stream": True, "stream_options": {"include_usage": True}},
)

RESPONSES = OpenAI(
    title="the Responses API",
    path="/responses",
    read=response_message,
    assemble=assembled_response,
    beside={"store": False},
    streamed={"stream": True},
    reasoning={"include": ["reasoning.encrypted_content"]},
)
