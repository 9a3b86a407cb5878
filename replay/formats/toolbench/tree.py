"""The tree of turns in an answer, and which way through it is the run's.

Search methods go on from earlier turns, so a node may have several after it. A node's place is
its number in the order they stand in the file, each before what follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from replay.formats.fields import listed, obj, word
from replay.formats.toolbench.reply import Reply, read
from replay.trace import Json


class Node(Struct, frozen=True, eq=False, kw_only=True):
    """One turn. `reply` is what a tool turn holds, None for any other."""

    place: int
    role: str
    text: str
    reply: Reply | None = None
    parent: Node | None = None
    leaf: bool = False

    @property
    def ends(self) -> bool:
        """Does the turn end the run or this branch of it?"""
        return self.reply is not None and self.reply.name == "Finish"


def nodes(details: list[Json]) -> list[Node]:
    """Every node of the tree, each before what follows it."""
    found: list[Node] = []
    waiting: list[tuple[Json, Node | None]] = [(each, None) for each in reversed(details)]
    while waiting:
        value, parent = waiting.pop()
        raw = obj(value)
        role, text = word(raw.get("role")) or "", word(raw.get("message")) or ""
        after = listed(raw.get("next"))
        node = Node(
            place=len(found),
            role=role,
            text=text,
            reply=read(text) if role == "tool" else None,
            parent=parent,
            leaf=not after,
        )
        found.append(node)
        waiting.extend((each, node) for each in reversed(after))
    return found


def leaf_of_answer(found: Sequence[Node], final: str | None) -> Node | None:
    """Where the run ended: the leaf that gave the final answer, the last that gave one, the last
    that ended at all, the last."""
    leaves = [node for node in found if node.leaf]
    ends = [node for node in leaves if node.ends]
    gave = [node for node in ends if node.reply and "give_answer" in (node.reply.arguments or "")]
    said = [node for node in ends if node.reply and node.reply.says(final)]
    for choice in (said, gave, ends, leaves):
        if choice:
            return choice[-1]
    return None


def path_to(leaf: Node | None) -> list[Node]:
    """The nodes from the root to a leaf."""
    path = [*_up(leaf)]
    path.reverse()
    return path


def _up(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent
