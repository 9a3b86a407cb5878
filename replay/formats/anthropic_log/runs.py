"""Which call goes on from which, which calls make one run, and which of its threads is each a step
of?

Two messages are the same words where their digests are equal.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay.depth import is_deep
from replay.formats.anthropic_log.exchanges import Exchange
from replay.formats.common import derived_id, listed, obj, word
from replay.trace import Json

MAIN = -1
"""The thread below the root; another one is named by the index of its first call."""

Key: TypeAlias = tuple[str, str | int]


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """The calls of one run in the order of the log; `threads` by the index of a call.

    `source_id` names the run by its first call, so that a log that grows stays the same run.
    """

    source_id: str
    calls: tuple[Call, ...]
    threads: dict[int, int]
    session: str | None = None

    @property
    def last(self) -> int:
        return self.calls[-1].index


def runs(calls: list[Call]) -> list[Run]:
    """Every run of a log, in the order of their first calls."""
    keys: list[Key] = []
    groups: dict[Key, list[Call]] = {}
    for call in calls:
        keys.append(_key(call, keys))
        groups.setdefault(keys[-1], []).append(call)
    return [_run(key, own, keys) for key, own in groups.items()]


def _key(call: Call, keys: list[Key]) -> Key:
    if call.session is not None:
        return ("session", call.session)
    if call.bare and call.custom_id is None:
        return ("answers", 0)
    if call.parent is not None:
        return keys[call.parent]
    return keys[call.sent_by[0]] if call.sent_by is not None else ("call", call.index)


def _run(key: Key, own: list[Call], keys: list[Key]) -> Run:
    session = own[0].session if key[0] == "session" else None
    first = own[0]
    parents = {
        call.index: call.parent if call.parent is not None and keys[call.parent] == key else None
        for call in own
    }
    return Run(
        source_id=derived_id(session, first.name, first.asked.hex(), first.setting.hex()),
        calls=tuple(own),
        threads=_threads(own, parents, bare=key[0] == "answers"),
        session=session,
    )


def _threads(own: list[Call], parents: dict[int, int | None], *, bare: bool) -> dict[int, int]:
    conversation: dict[int, int] = {}
    for call in own:
        above = parents[call.index]
        conversation[call.index] = call.index if above is None else conversation[above]
    main = _main(own, conversation)
    heirs = _heirs(own, parents)
    threads: dict[int, int] = {}
    for call in own:
        above = parents[call.index]
        if above is None:
            threads[call.index] = MAIN if bare or call.index in main else call.index
        elif call.failed or heirs[above] == call.index:
            threads[call.index] = threads[above]
        else:
            threads[call.index] = call.index
    return threads


def _main(own: list[Call], conversation: dict[int, int]) -> set[int]:
    """The first calls of the conversations that are the main thread."""
    first = {call.index: call for call in own if conversation[call.index] == call.index}
    asked = {at for at, call in first.items() if call.sent_by is None}
    lengths = Counter(at for at in conversation.values() if at in asked)
    with_tools = [at for at in asked if first[at].toolset is not None] or [*asked]
    if own[0].session is None or not with_tools:
        return {own[0].index}
    longest = max(with_tools, key=lambda at: (lengths[at], -at))
    return {at for at in asked if first[at].toolset == first[longest].toolset}


def _heirs(own: list[Call], parents: dict[int, int | None]) -> dict[int, int]:
    """For every call, which of those that go on from it leads to the newest usable answer."""
    best: dict[int, tuple[bool, int]] = {}
    heirs: dict[int, int] = {}
    for call in reversed(own):
        reached = max(best.get(call.index, (False, -1)), (not call.failed, call.index))
        above = parents[call.index]
        if above is not None and reached > best.get(above, (False, -1)):
            best[above], heirs[above] = reached, call.index
    return heirs


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
                of_value(exchange.part(name))
        setting = b"".join(self._setting(exchange, name) for name in _SYSTEM_PARTS)
        chain = self._chain(exchange)
        answer = exchange.answer.message
        given = of_answer(answer) if answer is not None else b""
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
            chain.append(digest(chain[-1], self._gist(raw)))
        return chain

    def _gist(self, raw: msgspec.Raw) -> bytes:
        """Most messages stood in the request before, byte by byte."""
        key = digest(raw)
        if key not in self._gists:
            self._gists[key] = of_message(msgspec.json.decode(raw))
        return self._gists[key]

    def _setting(self, exchange: Exchange, name: str) -> bytes:
        raw = (exchange.request or {}).get(name)
        if raw is None:
            return bytes(16)
        key = digest(name.encode(), raw)
        if key not in self._gists:
            self._gists[key] = of_value(exchange.part(name))
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
            for block in calls(body):
                at, same = self._asking.get(str(block.get("id")), (None, b""))
                if at is not None and same == _calls_of(block):
                    call.how, call.parent = "goes on", at
                    return

    def _sender(self, first: msgspec.Raw) -> tuple[int, int] | None:
        for text in texts(msgspec.json.decode(first)):
            found = self._prompts.get(digest(text.strip().encode()))
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
            self._answered.setdefault(digest(call.asked, given), []).append(call.index)
        for at, block in enumerate(calls(exchange.answer.message)):
            self._asking[str(block.get("id"))] = (call.index, _calls_of(block))
            for text in _prompts(block.get("input")):
                self._prompts[digest(text.strip().encode())] = (call.index, at)


def _calls_of(block: dict[str, Json]) -> bytes:
    return of_value([block.get("name"), block.get("input")])


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
    return digest("\0".join(found).encode())


THINKING = frozenset({"thinking", "redacted_thinking"})
_UNSEEN = frozenset({"cache_control", "citations", "caller"})

_encode = msgspec.json.Encoder(order="deterministic").encode


class TooDeep(Exception):
    """A value is nested deeper than those who read it, by recursion, can bear."""


def digest(*parts: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.digest()


def of_value(value: Json) -> bytes:
    """The digest of any value. Raises TooDeep."""
    if is_deep(value):
        raise TooDeep
    return digest(_encode(_plain(value)))


def of_message(body: Json) -> bytes:
    """The gist of a message. Raises TooDeep."""
    if is_deep(body):
        raise TooDeep
    found = obj(body)
    return digest(_encode([found.get("role"), [*_blocks(found.get("content"))]]))


def of_answer(message: dict[str, Json]) -> bytes:
    """The gist that an answer has when a client sends it back. Raises TooDeep."""
    if is_deep(message):
        raise TooDeep
    return of_message({"role": "assistant", "content": message.get("content")})


def _blocks(content: Json) -> Iterator[Json]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for block in listed(content):
        body = obj(block)
        kind = word(body.get("type"))
        if kind in THINKING:
            continue
        if kind == "text":
            text = str(body.get("text") or "").strip()
            if text:
                yield text
        elif kind == "tool_use":
            yield ["call", body.get("id"), body.get("name"), _plain(body.get("input"))]
        elif kind == "tool_result":
            yield ["result", body.get("tool_use_id"), [*_blocks(body.get("content"))]]
        else:
            yield _plain(block)


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {n: _plain(v) for n, v in value.items() if n not in _UNSEEN and v is not None}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value


def texts(body: Json) -> Iterator[str]:
    """The texts of a message, block by block."""
    content = obj(body).get("content")
    if isinstance(content, str):
        yield content
    for block in listed(content):
        text = obj(block).get("text")
        if isinstance(text, str):
            yield text


def calls(message: dict[str, Any] | None) -> list[dict[str, Json]]:
    """The blocks of an answer that ask for a tool of the client."""
    blocks = map(obj, listed(obj(message).get("content")))
    return [block for block in blocks if block.get("type") == "tool_use"]
