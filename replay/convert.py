"""A recorded request as a body of the API by which a model is asked, whichever it was recorded
from: that of the Messages API here, those of OpenAI by `openai_requests` and `openai_settings`.

The same policy holds in every arm of a replay, so that only the edit can make a difference:
thinking and cache markers are left out, ids are renamed by their order, several system texts become
one; sampling settings are sent where the server of that model takes them. What is not sent as
recorded is listed, never dropped silently, and such a request is not `exact`.
A body never makes anyone act: a server's own tools are offered as plain tools that nobody runs.

Converting the steps of a trace costs each node of their contexts once, and so do their keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from replay import digests, messages, openai_requests, openai_settings
from replay.openai_items import UNSENT
from replay.openai_requests import TRANSLATED
from replay.providers import WireName, bare, wire_of
from replay.trace import NO_TOOLS, Fidelity, Json, Level, Message, Request, Tool
from replay.turns import (
    OPENING,
    RENAMED,
    THINKING,
    Conversation,
    Conversations,
    Turn,
    alias,
    turn_after,
)

API = "2026-10-21"
"""The version of the Messages API that bodies are made for; part of every key."""

APIS: dict[WireName, str] = {
    "messages": API,
    "chat": "openai-chat/1",
    "responses": "openai-responses/1",
}
"""The same of every wire. Those of OpenAI have no versions: the number is ours."""

VERSION = 2
"""Of how a recording is made into bodies; a change of what is sent must change it."""

DEFAULT_MAX_TOKENS = 4096
"""The limit asked for where the recording names none: room for any single action."""

JOINED = "several system texts sent as one"
SHIMMED = "the provider's own tool, offered as a plain one"

UNNAMED = "tools recorded without a name, each sent under its own"
REPEATED = "tools that share a name, each sent under its own"

_POLICY = UNSENT | {RENAMED, JOINED}
"""Losses that follow from our rules and take no message, tool or result from the model."""

SAMPLING = ("temperature", "top_p", "top_k")
"""The sampling settings that the protocol knows beside its messages."""


def takes_sampling(model: str) -> bool:
    """Does the server of a model of that name take `SAMPLING`?

    The Messages API refuses each of them for its own models in this version, even at its default
    value (`arc doctor --live` tries it); servers of other models that speak its protocol take them.
    The demo model has none.
    """
    return "claude" not in model.lower() and model != "demo"


class Sent(Struct, frozen=True, eq=False, kw_only=True):
    """A request as a model gets it, by the API `wire`.

    `params` are the fields beside system, tools and messages. `losses` say what is not as
    recorded; `partial` are those of them that change what the model knows, `unsent` the settings
    and the thinking that were left out. `refusal` says why there is nothing to ask, None where
    there is.
    """

    params: dict[str, Json]
    system: str | None
    tools: list[dict[str, Json]]
    conversation: Conversation
    system_digest: str | None
    tools_digest: str | None
    losses: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    unsent: tuple[str, ...] = ()
    refusal: str | None = None
    wire: WireName = "messages"

    def fidelity(self, recorded: Fidelity) -> Fidelity:
        """How completely the request is asked again, of one that is known so well: what could not
        be sent lowers it and is a reason."""
        if recorded.level is Level.NONE or not (self.partial or self.unsent):
            return recorded
        least = Level.PARTIAL if self.partial else Level.REBUILT
        level = max(recorded.level, least, key=lambda each: each.rank)
        reasons = dict.fromkeys((*recorded.reasons, *self.partial, *self.unsent))
        return Fidelity(level=level, reasons=tuple(reasons))

    def body(self) -> dict[str, Any]:
        """The body itself. Its messages are shared with other bodies: not to be changed."""
        system, said = _FIELDS[self.wire]
        known = {system: self.system, "tools": self.tools}
        beside = {name: value for name, value in known.items() if value}
        return {**self.params, **beside, said: self.conversation.messages()}

    def key(self, sample: int) -> str:
        """What its `sample`-th answer is stored under."""
        turn = self.conversation.turn
        return digests.key(
            api=APIS[self.wire],
            system=self.system_digest,
            tools=self.tools_digest,
            params=self.params,
            context=turn.digest if turn is not None else None,
            sample=sample,
        )

    def asks_as(self, other: Sent) -> bool:
        """Is this the same request to a model? Then every sample has the same key."""
        turn, its = self.conversation.turn, other.conversation.turn
        return (
            self.wire == other.wire
            and self.system_digest == other.system_digest
            and self.tools_digest == other.tools_digest
            and (turn and turn.digest) == (its and its.digest)
            and self.params == other.params
        )

    def tools_sent(self) -> list[Tool]:
        """The tools as the model gets them."""
        return openai_settings.tools_of(self.tools)

    def recorded_name(self, tool: str) -> str:
        """The recorded name of a tool that the model calls by the name it was sent."""
        return self.conversation.aliases.get(tool, tool)


_FIELDS: dict[WireName, tuple[str, str]] = {
    "messages": ("system", "messages"),
    "chat": ("", "messages"),
    "responses": ("instructions", "input"),
}
"""Where a system prompt (a chat has it among its messages) and a conversation stand in a body."""


def body_key(body: dict[str, Any], sample: int, wire: WireName = "messages") -> str:
    """The key of a whole body, for those who build one without a recording behind it."""
    turn: Turn | None = None
    system, conversation = _FIELDS[wire]
    for said in body[conversation]:
        turn = turn_after(turn, said)
    return digests.key(
        api=APIS[wire],
        system=_digest("system", body.get(system)),
        tools=_digest("tools", body.get("tools")),
        params={n: v for n, v in body.items() if n not in {system, "tools", conversation}},
        context=turn.digest if turn is not None else None,
        sample=sample,
    )


def _digest(part: str, value: Json) -> str | None:
    return digests.digest(part, digests.encode_seen(value)) if value else None


class _System(Struct, frozen=True, eq=False):
    source: Message | None
    text: str | None
    digest: str | None
    losses: tuple[str, ...]


class _Offered(Struct, frozen=True, eq=False):
    source: tuple[Tool, ...] | None
    tools: list[dict[str, Json]]
    digest: str | None
    losses: tuple[str, ...]
    aliases: dict[str, str]


_NO_SYSTEM = _System(None, None, None, ())


class Converter:
    """Makes requests of one trace into bodies for one model, of the API that its name says."""

    def __init__(self, model: str) -> None:
        self.wire = wire_of(model)
        self.model = bare(model)
        self._conversations = Conversations()
        self._talks = openai_requests.Talks(model)
        # Memos hold the objects they know, so that an id is never another object's.
        self._systems: dict[tuple[int, tuple[str, ...]], _System] = {}
        self._toolsets: dict[int, _Offered] = {}

    def sent(self, request: Request) -> Sent:
        """The request as it is sent, with everything that is not as recorded listed."""
        if self.wire != "messages":
            return self._openai(request)
        talk = self._conversations.of(request.context)
        system = self._system(request.system, talk.lead)
        offered = self._offered(request.tools)
        params, dropped = _params(request.params, self.model, bool(offered.tools))
        content = (*system.losses, *offered.losses, *talk.lost)
        told = (TRANSLATED,) if self.model != "demo" and _is_foreign(request) else ()
        return Sent(
            params=params,
            system=system.text,
            tools=offered.tools,
            conversation=talk.named(offered.aliases),
            system_digest=system.digest,
            tools_digest=offered.digest,
            losses=(*told, *content, *dropped),
            partial=tuple(loss for loss in content if loss not in _POLICY),
            unsent=(*told, *(loss for loss in content if loss == THINKING), *dropped),
            refusal=_refusal(request, talk),
        )

    def _openai(self, request: Request) -> Sent:
        """The same by one of OpenAI's APIs."""
        talk = self._talks.of(request.system, request.context)
        conversation = talk.conversation
        recorded_by = openai_settings.recorded_wire(request.params)
        translated = talk.translated or recorded_by not in {None, self.wire}
        offered = self._offered(request.tools)
        system = _NO_SYSTEM
        if self.wire == "responses":
            system = self._system(request.system, conversation.lead)
        made = openai_settings.settings(
            request.params,
            self.wire,
            self.model,
            offers=bool(offered.tools),
            named=openai_requests.short,
            as_recorded=not talk.translated,
        )
        content = (*system.losses, *offered.losses, *conversation.lost)
        told = (TRANSLATED,) if translated else ()
        refusal = _refusal(request, conversation)
        return Sent(
            params=made.params,
            system=system.text,
            tools=offered.tools,
            conversation=conversation.named(offered.aliases),
            system_digest=system.digest,
            tools_digest=offered.digest,
            losses=(*told, *content, *made.lost),
            partial=tuple(loss for loss in content if loss not in _POLICY),
            unsent=(*told, *(loss for loss in content if loss in UNSENT), *made.lost),
            refusal=refusal,
            wire=self.wire,
        )

    def _system(self, recorded: Message | None, lead: tuple[str, ...]) -> _System:
        key = (id(recorded), lead)
        if key not in self._systems:
            blocks = recorded.body.get("content") if recorded is not None else None
            texts = [messages.text(recorded)] if recorded is not None else []
            several = bool(lead and texts) or (isinstance(blocks, list) and len(blocks) > 1)
            text = "\n\n".join(each for each in [*texts, *lead] if each.strip()) or None
            losses = (JOINED,) if several else ()
            self._systems[key] = _System(recorded, text, _digest("system", text), losses)
        return self._systems[key]

    def _offered(self, recorded: tuple[Tool, ...] | None) -> _Offered:
        if id(recorded) not in self._toolsets:
            names = _names(recorded or ())
            if self.wire != "messages":
                names = [openai_requests.short(name) for name in names]
            tools = [
                _tool(tool, name, self.wire)
                for tool, name in zip(recorded or (), names, strict=True)
            ]
            losses = [loss for tool in recorded or () for loss in _tool_losses(tool, self.wire)]
            losses += _name_losses(recorded or ())
            aliases = {
                name: tool.name
                for tool, name in zip(recorded or (), names, strict=True)
                if name != tool.name
            }
            self._toolsets[id(recorded)] = _Offered(
                recorded, tools, _digest("tools", tools), tuple(losses), aliases
            )
        return self._toolsets[id(recorded)]


def _is_foreign(request: Request) -> bool:
    """Was it recorded by another API than the Messages API? The last message tells, or the system
    prompt where an edit put another last."""
    ends = (request.system, request.context.message if request.context is not None else None)
    return any(each is not None and each.dialect != "anthropic" for each in ends)


def _refusal(request: Request, talk: Conversation) -> str | None:
    """Why no model can be asked this, None where one can."""
    turn = talk.turn
    if turn is None or (turn.before is None and turn.body.get("content") == OPENING):
        return "no messages recorded"
    if talk.unanswered:
        return f"missing tool result: {talk.unanswered[0]}"
    if talk.calls and not request.tools:
        return f"tools were called, but {NO_TOOLS} (`arc attach` adds them)"
    return None


# --- tools


def _names(tools: tuple[Tool, ...]) -> list[str]:
    """The names tools are sent by, no two alike: the API refuses a name that stands twice."""
    met: Counter[str] = Counter()
    names = []
    for tool in tools:
        names.append(alias(tool.name, met[tool.name]))
        met[tool.name] += 1
    return names


def _name_losses(tools: tuple[Tool, ...]) -> Iterator[str]:
    """What the model is not told of names as it was."""
    for name, count in Counter(tool.name for tool in tools).items():
        if not name:
            yield f"{UNNAMED}: {count}"
        elif count > 1:
            yield f"{REPEATED}: {name}"


def _tool(tool: Tool, name: str, wire: WireName) -> dict[str, Json]:
    if wire != "messages":
        return openai_settings.tool_body(tool, name, wire)
    schema = tool.schema if isinstance(tool.schema, dict) else {}
    described = {} if tool.description is None else {"description": tool.description}
    return {
        "name": name,
        **described,
        "input_schema": schema if schema.get("type") == "object" else {"type": "object", **schema},
    }


def _tool_losses(tool: Tool, wire: WireName) -> Iterator[str]:
    if tool.extra.get("type") not in {None, "function", "custom"}:
        yield f"{SHIMMED}: {tool.name}"
    sent = {"type", "cache_control"} if wire == "messages" else {"type", "cache_control", "strict"}
    for name, value in tool.extra.items():
        if name not in sent and value is not None:
            yield f"`{name}` of tool {tool.name} not sent"


# --- the fields beside


_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_STOPS = ("stop_sequences", "stop_seqs", "stop")
_UNSEEN = {"stream", "stream_options", "metadata", "user", "service_tier", "store", "timeout"}
_UNSEEN |= {"max_connections", "max_retries", "cache_prompt", "speed", "model", "n"}
"""What a provider reads and a model does not: not sent, and no loss."""
_READ = {*_LIMITS, *_STOPS, *_UNSEEN, "tool_choice", "parallel_tool_calls", "output_config"}


def _params(
    recorded: dict[str, Json], model: str, offers: bool
) -> tuple[dict[str, Json], tuple[str, ...]]:
    """The remaining fields as sent, and those that cannot be."""
    limits = (recorded.get(name) for name in _LIMITS)
    limit = next((each for each in limits if type(each) is int and each > 0), DEFAULT_MAX_TOKENS)
    params: dict[str, Json] = {"model": model, "max_tokens": limit}
    sampling = {
        name: recorded[name]
        for name in SAMPLING
        if takes_sampling(model) and type(recorded.get(name)) in {int, float}
    }
    params |= sampling
    lost = [
        f"`{name}` not sent"
        for name, value in recorded.items()
        if name not in _READ and name not in sampling and value is not None
    ]
    stops = [each for name in _STOPS for each in _listed(recorded.get(name))]
    kept = [each for each in stops if isinstance(each, str) and each.strip()]
    if kept:
        params["stop_sequences"] = kept
    if len(kept) < len(stops):
        lost.append("an empty stop sequence not sent")
    if isinstance(recorded.get("output_config"), dict):
        params["output_config"] = recorded["output_config"]
    choice = _tool_choice(recorded.get("tool_choice"))
    if choice is None and recorded.get("tool_choice") is not None:
        lost.append("`tool_choice` not sent")
    if recorded.get("parallel_tool_calls") is False:
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    if choice is not None and choice != {"type": "auto"} and offers:
        params["tool_choice"] = choice
    return params, tuple(lost)


def _listed(value: Json) -> list[Json]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _tool_choice(recorded: Json) -> dict[str, Json] | None:
    """The choice in the API's words, None where it has none for it."""
    if isinstance(recorded, str):
        word = {"required": "any"}.get(recorded, recorded)
        return {"type": word} if word in {"auto", "any", "none"} else None
    if not isinstance(recorded, dict):
        return None
    if recorded.get("type") in {"auto", "any", "none"}:
        return recorded
    inner = recorded.get("function")
    name = (inner if isinstance(inner, dict) else recorded).get("name")
    return {"type": "tool", "name": alias(name)} if isinstance(name, str) else None
