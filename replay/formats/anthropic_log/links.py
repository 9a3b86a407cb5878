"""Which call goes on from which, and which calls make one run?

The API knows no runs: every request repeats its conversation. A call goes on from the one whose
messages and answer its own messages begin with; where a client rewrote what it had said (a reminder
taken out, an old result cleared), from the one whose tool calls it sends back; in a message thread
from the one it names. A request that repeats one that failed is its retry. A conversation whose
first words are the argument of an earlier tool call is that call's sub-agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay.formats.anthropic_log import gist
from replay.formats.anthropic_log.exchanges import Exchange
from replay.formats.fields import obj
from replay.formats.normal import derived_id
from replay.trace import Json

How: TypeAlias = Literal["root", "goes on", "thread", "retry"]

SHORTEST_PROMPT = 24
"""Characters; a shorter argument that equals a shorter prompt may do so by chance."""

_SYSTEM_PARTS = ("system", "tools")


class Call(Struct, kw_only=True, eq=False):
    """One call of the log in its place among the others.

    `parent` is the index of the call it goes on from; `sent_by` the index of the call, and the
    place of its tool call, that began this conversation. `bare` is an answer that nobody kept the
    request of.
    """

    index: int
    number: int
    name: str
    how: How = "root"
    parent: int | None = None
    sent_by: tuple[int, int] | None = None
    session: str | None = None
    custom_id: str | None = None
    bare: bool = False
    asked: bytes = b""
    setting: bytes = b""
    toolset: bytes | None = None
    failed: bool = False


class Links:
    """Takes the calls of a log in their order and links each to those before it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._gists: dict[bytes, bytes] = {}
        self._answered: dict[bytes, list[int]] = {}
        self._failed: dict[bytes, int] = {}
        self._by_id: dict[str, int] = {}
        self._asking: dict[str, tuple[int, bytes]] = {}
        self._prompts: dict[bytes, tuple[int, int]] = {}
        self._names: set[str] = set()
        self._going_on: set[int] = set()

    def add(self, exchange: Exchange) -> Call | None:
        """The call in its place; None where the log tells it a second time. Raises TooDeep."""
        for name in exchange.request or ():
            if name not in {"messages", *_SYSTEM_PARTS}:
                gist.of_value(exchange.part(name))
        setting = b"".join(self._setting(exchange, name) for name in _SYSTEM_PARTS)
        chain = self._chain(exchange)
        answer = exchange.answer.message
        given = gist.of_answer(answer) if answer is not None else b""
        known = self._by_id.get(exchange.answer_id or "")
        if known is not None and self.calls[known].asked == chain[-1]:
            return None
        call = Call(
            index=len(self.calls),
            number=exchange.number,
            name=self._name(exchange, chain[-1], setting),
            session=exchange.session,
            custom_id=exchange.custom_id,
            bare=exchange.request is None,
            asked=chain[-1],
            setting=setting,
            toolset=_toolset(exchange),
            failed=exchange.failed,
        )
        self._link(call, exchange, chain)
        if call.how == "root" and exchange.messages:
            call.sent_by = self._sender(exchange.messages[0])
        self.calls.append(call)
        self._remember(call, exchange, given)
        return call

    def _chain(self, exchange: Exchange) -> list[bytes]:
        """A digest of nothing, of the first message, of the first two, and so on."""
        chain = [b""]
        for raw in exchange.messages:
            chain.append(gist.digest(chain[-1], self._gist(raw)))
        return chain

    def _gist(self, raw: msgspec.Raw) -> bytes:
        """Most messages stood in the request before, byte by byte."""
        key = gist.digest(raw)
        if key not in self._gists:
            self._gists[key] = gist.of_message(msgspec.json.decode(raw))
        return self._gists[key]

    def _setting(self, exchange: Exchange, name: str) -> bytes:
        raw = (exchange.request or {}).get(name)
        if raw is None:
            return bytes(16)
        key = gist.digest(name.encode(), raw)
        if key not in self._gists:
            self._gists[key] = gist.of_value(exchange.part(name))
        return self._gists[key]

    def _name(self, exchange: Exchange, asked: bytes, setting: bytes) -> str:
        """The id of the answer, else of the request, else one derived from what was asked."""
        wanted = exchange.answer_id or exchange.request_id
        wanted = wanted or derived_id(asked.hex(), setting.hex(), exchange.start_ns)
        name, again = wanted, 1
        while name in self._names:
            again += 1
            name = f"{wanted}#{again}"
        self._names.add(name)
        return name

    def _link(self, call: Call, exchange: Exchange, chain: list[bytes]) -> None:
        if exchange.continues is not None:
            call.how, call.parent = "thread", self._by_id.get(exchange.continues)
            return
        for depth in range(len(chain) - 1, 0, -1):
            found = self._answered.get(chain[depth])
            if found is not None:
                call.how, call.parent = "goes on", self._best(found, call)
                return
        retried = self._failed.pop(call.asked + call.setting, None)
        if retried is not None and exchange.messages:
            call.how, call.parent = "retry", retried
            return
        self._link_by_calls(call, exchange)

    def _best(self, found: list[int], call: Call) -> int:
        """Of several calls that said the same: one in the same setting that nobody went on from,
        the latest."""
        return max(
            found,
            key=lambda at: (
                self.calls[at].session == call.session,
                self.calls[at].setting == call.setting,
                at not in self._going_on,
                at,
            ),
        )

    def _link_by_calls(self, call: Call, exchange: Exchange) -> None:
        """The latest call of which the request sends back a tool call, id and arguments."""
        for raw in reversed(exchange.messages):
            if b"tool_use" not in bytes(raw):
                continue
            body = msgspec.json.decode(raw)
            if not isinstance(body, dict) or body.get("role") != "assistant":
                continue
            for block in gist.calls(body):
                at, same = self._asking.get(str(block.get("id")), (None, b""))
                if at is not None and same == _asked(block):
                    call.how, call.parent = "goes on", at
                    return

    def _sender(self, first: msgspec.Raw) -> tuple[int, int] | None:
        for text in gist.texts(msgspec.json.decode(first)):
            found = self._prompts.get(gist.digest(text.strip().encode()))
            if found is not None:
                return found
        return None

    def _remember(self, call: Call, exchange: Exchange, given: bytes) -> None:
        if call.parent is not None:
            self._going_on.add(call.parent)
        if exchange.answer_id is not None:
            self._by_id.setdefault(exchange.answer_id, call.index)
        if exchange.failed:
            self._failed[call.asked + call.setting] = call.index
            return
        if exchange.messages and call.how != "thread":
            self._answered.setdefault(gist.digest(call.asked, given), []).append(call.index)
        for at, block in enumerate(gist.calls(exchange.answer.message)):
            self._asking[str(block.get("id"))] = (call.index, _asked(block))
            for text in _prompts(block.get("input")):
                self._prompts[gist.digest(text.strip().encode())] = (call.index, at)


def _asked(block: dict[str, Json]) -> bytes:
    return gist.of_value([block.get("name"), block.get("input")])


def _prompts(given: Json) -> Iterator[str]:
    """The arguments of a call that may be what a sub-agent is told."""
    for value in given.values() if isinstance(given, dict) else ():
        if isinstance(value, str) and len(value.strip()) >= SHORTEST_PROMPT:
            yield value


def _toolset(exchange: Exchange) -> bytes | None:
    """The names of the tools offered, as a digest; None where there are none."""
    tools = exchange.part("tools")
    if not isinstance(tools, list) or not tools:
        return None
    found = sorted(str(obj(tool).get("name")) for tool in tools)
    return gist.digest("\0".join(found).encode())
