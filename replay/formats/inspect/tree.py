"""The events of a sample as a tree: which event happened in which span, or step, or tool.

Three generations meet here. Since May 2025 `span_begin` and `span_end` name their parents and an
event names its span; before, `step` events opened and closed in order; and tools and subtasks used
to hold their `events` inside. Pairing tools with their spans is `tools`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from replay.formats.fields import listed, obj, word
from replay.formats.intake import Tally
from replay.formats.normal import derived_id
from replay.trace import Json

SPEAKERS = {"agent", "tool", "scorer", "subtask", "handoff"}
"""Types of node whose model calls are a thread of their own, not their surroundings'."""


class Node(Struct, eq=False):
    """An event; a span or a step is its begin event, with the time and the order of its end.

    `kind` is the event's word ("span" for spans and steps), `type` the span's type; `order` and
    `ended` count the events of the sample. `next_at` is the timestamp of the event after this one.
    """

    id: str
    kind: str
    type: str
    name: str
    event: dict[str, Any]
    order: int
    parent: Node | None = None
    ended: int | None = None
    end_at: Json = None
    next_at: Json = None
    speaker: Node | None = None

    def ancestors(self) -> Iterator[Node]:
        """From the parent up to the root."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent


class Tree:
    """The nodes of a sample in the order of its events, each below the span it happened in.

    `spans` finds a node by the id of its span. The root stands for the sample itself.
    """

    def __init__(self, root: str, events: Json, tally: Tally, where: str) -> None:
        self.root = Node(id=root, kind="span", type="agent", name="", event={}, order=0)
        self.nodes: list[Node] = []
        self.spans: dict[str, Node] = {}
        self._tally, self._where = tally, where
        self._order = 0
        self._taken = {root}
        self._strange: set[str] = set()
        self._read(listed(events), self.root)

    def _read(self, events: list[Json], home: Node) -> None:
        """A list of events that happened in `home`."""
        steps = [home]
        for index, event in enumerate(events):
            if not isinstance(event, dict):
                self._tally.problem(f"{self._where} event {index}", "is not an object")
                continue
            self._order += 1
            after = obj(events[index + 1]) if index + 1 < len(events) else {}
            self._put(event, steps, after.get("timestamp"))

    def _put(self, event: dict[str, Any], steps: list[Node], next_at: Json) -> None:
        """One event; `steps` are the steps open around it, innermost last, the home first."""
        kind = word(event.get("event")) or ""
        if kind == "span_begin":
            self._begin(event, steps[0])
        elif kind == "span_end":
            self._end(event)
        elif kind == "step" and event.get("action") == "end":
            self._end_step(event, steps)
        elif kind == "step":
            steps.append(self._add(event, "span", steps[-1], None))
        else:
            below = self._named(event.get("span_id"), steps[-1])
            node = self._add(event, kind, below, word(event.get("uuid")))
            node.next_at = next_at
            self._read(listed(event.get("events")), node)

    def _begin(self, event: dict[str, Any], home: Node) -> None:
        own = word(event.get("id"))
        node = self._add(event, "span", self._named(event.get("parent_id"), home), own)
        self.spans[own or node.id] = node

    def _end(self, event: dict[str, Any]) -> None:
        node = self.spans.get(word(event.get("id")) or "")
        if node is not None and node.ended is None:
            node.ended, node.end_at = self._order, event.get("timestamp")

    def _end_step(self, event: dict[str, Any], steps: list[Node]) -> None:
        """Closes the innermost step of that name and what is still open in it."""
        name = word(event.get("name"))
        depth = next((d for d in range(len(steps) - 1, 0, -1) if steps[d].name == name), None)
        if depth is None:
            self._tally.problem(self._where, f"step {name} ends but was not begun")
            return
        for node in steps[depth:]:
            node.ended, node.end_at = self._order, event.get("timestamp")
        del steps[depth:]

    def _named(self, span: Json, otherwise: Node) -> Node:
        """The span an event names. One that was never begun is a problem, told once."""
        name = word(span)
        if name is None:
            return otherwise
        if name not in self.spans and name not in self._strange:
            self._strange.add(name)
            self._tally.problem(self._where, f"span {name} has events but no beginning")
        return self.spans.get(name, otherwise)

    def _add(self, event: dict[str, Any], kind: str, parent: Node, own: str | None) -> Node:
        sort = (word(event.get("type")) or "step") if kind == "span" else kind
        node = Node(
            id=self._unused(own),
            kind=kind,
            type=sort,
            name=word(event.get("name")) or sort,
            event=event,
            order=self._order,
            parent=parent,
        )
        self.nodes.append(node)
        return node

    def _unused(self, own: str | None) -> str:
        """The source's own id; a derived one where it has none or has used it before."""
        if own is None or own in self._taken:
            own = derived_id(self.root.id, self._order)
        self._taken.add(own)
        return own


def find_speakers(nodes: list[Node]) -> None:
    """Give each node its speaker: the nearest one above that is an agent or may be one."""
    for node in nodes:
        path, here = [], node
        found: Node | None = None
        while found is None:
            path.append(here)
            above = here.parent
            assert above is not None, "the root is a speaker and stands above every node"
            found = above if above.type in SPEAKERS else above.speaker
            here = above
        for each in path:
            each.speaker = found
