"""What each call of a run was shown, as chains that share what calls have in common.

Every request repeats its conversation; a message that stood there before, after the same messages,
is the node that it was, and is not decoded again.
"""

from __future__ import annotations

import msgspec

from replay import canon
from replay.formats.anthropic_log import gist
from replay.formats.anthropic_log.exchanges import Exchange
from replay.formats.chat import tool
from replay.formats.fields import known, word
from replay.trace import Context, Json, Message, Request, Tool, extend

_APART = {"messages", "metadata", "model", "system", "tools", "thread"}
"""Fields of a body that are no parameters; `metadata` names the person who asked."""


class Contexts:
    """Makes requests of one run, in the order of the log."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], Context] = {}
        self._seen: dict[bytes, tuple[bytes, Message]] = {}
        self._systems: dict[bytes, Message] = {}
        self._toolsets: dict[bytes, tuple[Tool, ...]] = {}

    def request(
        self, exchange: Exchange, before: Request | None, answer: Message | None
    ) -> Request:
        """The request of a call. In a message thread `before` is the request that it goes on from
        and `answer` what that came to; what it leaves out is as it was there."""
        context = before.context if before is not None else None
        if context is not None and answer is not None:
            context = extend(context, (answer,))
        for raw in exchange.messages:
            context = self._after(context, raw)
        asked = exchange.request or {}
        model = word(exchange.part("model")) or exchange.url_model
        if model is None and before is not None:
            model = before.model
        system, tools = self._system(exchange), self._tools(exchange)
        return Request(
            model=model,
            system=system if system is not None or before is None else before.system,
            tools=tools if "tools" in asked or before is None else before.tools,
            params=known(**{name: exchange.part(name) for name in asked if name not in _APART}),
            context=context,
        )

    def _after(self, context: Context | None, raw: msgspec.Raw) -> Context:
        """The node of a message after a context. Cache markers move from turn to turn, and a
        message with one is the same message."""
        key = gist.digest(raw)
        if key not in self._seen:
            body = msgspec.json.decode(raw)
            message = Message(dialect="anthropic", body=_message(body))
            self._seen[key] = (gist.digest(canon.encode_seen(message.body)), message)
        same, message = self._seen[key]
        place = (id(context), same)
        if place not in self._nodes:
            node = extend(context, (message,))
            assert node is not None
            self._nodes[place] = node
        return self._nodes[place]

    def _system(self, exchange: Exchange) -> Message | None:
        raw = (exchange.request or {}).get("system")
        if raw is None:
            return None
        key = gist.digest(raw)
        if key not in self._systems:
            body = {"role": "system", "content": exchange.part("system")}
            self._systems[key] = Message(dialect="anthropic", body=body)
        found = self._systems[key]
        return found if found.body["content"] else None

    def _tools(self, exchange: Exchange) -> tuple[Tool, ...] | None:
        """The tools offered: none where the request names none, unknown where nobody kept it."""
        raw = (exchange.request or {}).get("tools")
        if raw is None:
            return () if exchange.request is not None else None
        key = gist.digest(raw)
        if key not in self._toolsets:
            declared = exchange.part("tools")
            listed = declared if isinstance(declared, list) else []
            self._toolsets[key] = tuple(map(tool, listed))
        return self._toolsets[key]


def _message(body: Json) -> dict[str, Json]:
    return body if isinstance(body, dict) else {"role": "user", "content": body}
