"""A path through the tree told as model calls, tool calls and what came back.

An assistant turn before a tool turn is what the model said as it called; alone it is a call of
the model without one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import structs

from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import obj, word
from replay.formats.intake import Tally
from replay.formats.normal import derived_id
from replay.formats.toolbench.reply import MORE, Reply, mended, parsed
from replay.formats.toolbench.tree import Node
from replay.trace import (
    NO_SYSTEM,
    AnySpan,
    Fidelity,
    Level,
    Message,
    OtherSpan,
    Place,
    Request,
    Tool,
    ToolCall,
)

CUT = "messages cut by the source"
WIDTH = 100
"""Characters at which evaluation files cut a message."""


class Teller:
    """Tells the nodes of one path. `cut` once something told was cut by the source."""

    def __init__(
        self,
        *,
        root: str,
        tools: tuple[Tool, ...] | None,
        query: str | None,
        final: str | None,
        tally: Tally,
    ) -> None:
        self.cut = False
        self._root, self._query, self._final, self._tally = root, query, final, tally
        self._thought: Node | None = None
        self._cut_calls: set[str] = set()
        self._thread = Thread(
            parent=root,
            request=Request(tools=tools),
            fidelity=Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM,)),
            tally=tally,
        )

    def tell(self, node: Node) -> None:
        if node.role == "assistant":
            self.close()
            self._thought = node
        elif node.role == "tool":
            self._acted(node)
        elif node.role == "system":
            self._prompted(node)
        else:
            self.close()
            words = self._asked(node) if node.role == "user" else self._told(node)
            self._hear({"role": node.role or "user", "content": words}, node)

    def close(self) -> None:
        """A thought that no call follows is an answer of its own."""
        if self._thought is not None:
            self._say(self._thought, None, None)

    def spans(self) -> Iterator[AnySpan]:
        for span in self._thread.spans():
            cut = isinstance(span, ToolCall) and span.call_id in self._cut_calls
            yield structs.replace(span, extra={"cut": "arguments"}) if cut else span

    def _prompted(self, node: Node) -> None:
        if node.text:
            system = Message(dialect="openai", body={"role": "system", "content": self._told(node)})
            self._thread.request = structs.replace(self._thread.request, system=system)

    def _asked(self, node: Node) -> str:
        """The user's words; a cut query stands whole beside the tree."""
        if self._query is not None and node.text and self._query.startswith(node.text):
            return self._query
        return self._told(node)

    def _told(self, node: Node) -> str:
        """The words of a turn; as long as the source lets them be, they go on."""
        if len(node.text) != WIDTH:
            return node.text
        self.cut = True
        return node.text + MORE

    def _acted(self, node: Node) -> None:
        reply = node.reply
        if reply is None:
            self.close()
            self._tally.problem(f"turn {node.place}", "is no call that can be read")
            self._hear({"role": "user", "content": self._told(node)}, node)
            return
        call_id = f"call_{node.place}"
        self._say(node, reply, call_id)
        if reply.response is None:
            return
        shown = reply.response + (MORE if reply.cut == "response" else "")
        self.cut = self.cut or reply.cut is not None
        body = {"role": "tool", "tool_call_id": call_id, "name": reply.name, "content": shown}
        self._hear(body, node)

    def _hear(self, body: dict[str, Any], node: Node) -> None:
        self._thread.heard(Message(dialect="openai", body=body), place=Place(message=node.place))

    def _say(self, node: Node, reply: Reply | None, call_id: str | None) -> None:
        thought, self._thought = self._thought, None
        self._thread.fidelity = self._known()
        body: dict[str, Any] = {"role": "assistant", "content": None}
        if thought is not None:
            body["content"] = self._told(thought)
        if reply is not None and call_id is not None:
            function = {"name": reply.name, "arguments": self._arguments(reply, call_id)}
            body["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
        turn = Turn(id=derived_id(self._root, node.place), place=Place(message=node.place))
        self._thread.said(Message(dialect="openai", body=body), turn)

    def _arguments(self, reply: Reply, call_id: str) -> str:
        """The arguments as text; cut ones mended and marked, or whole from the final answer."""
        given = reply.arguments or ""
        if reply.cut != "arguments":
            return given
        whole = self._final if reply.name == "Finish" and reply.says(self._final) else None
        if whole is not None and parsed(whole) is not None:
            return whole
        self.cut = True
        self._cut_calls.add(call_id)
        return msgspec.json.encode(mended(whole or given)).decode()

    def _known(self) -> Fidelity:
        prompted = self._thread.request.system is not None
        reasons = () if prompted else (NO_SYSTEM,)
        if self.cut:
            return Fidelity(level=Level.NONE, reasons=(CUT, *reasons))
        return Fidelity(level=Level.PARTIAL if reasons else Level.REBUILT, reasons=reasons)


def finish(path: Sequence[Node], final: str | None) -> str | None:
    """The `return_type` with which the path ended, None where it did not say."""
    reply = path[-1].reply if path and path[-1].ends else None
    if reply is None:
        return None
    given = reply.arguments or ""
    whole = final if final and reply.says(final) else given
    value = parsed(whole)
    return word(obj(mended(whole) if value is None else value).get("return_type"))


def alternatives(found: Sequence[Node], path: Sequence[Node], root: str) -> Iterator[OtherSpan]:
    """The branches that the search left, one span each: after which turn, and what was in it."""
    taken = {node.place for node in path}
    branch_of: dict[int, int] = {}
    turns: dict[int, list[Node]] = {}
    for node in found:
        if node.place in taken:
            continue
        above = node.parent.place if node.parent is not None else None
        start = branch_of.get(above, node.place) if above is not None else node.place
        branch_of[node.place] = start
        turns.setdefault(start, []).append(node)
    for branch in turns.values():
        first = branch[0]
        yield OtherSpan(
            id=derived_id(root, "alternative", first.place),
            name=first.reply.name if first.reply is not None else first.role,
            parent=root,
            time_quality="none",
            place=Place(message=first.place),
            operation="alternative",
            extra={
                "after": first.parent.place if first.parent is not None else None,
                "turns": [{"place": n.place, "role": n.role, "message": n.text} for n in branch],
            },
        )
