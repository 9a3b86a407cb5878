"""Which span is which tool's: the pairs that an Inspect log does not name.

A tool's event is made before its span is opened and stands beside it, in the agent's span, with no
id in common; what the tool did hangs below the span. A handoff is wrapped once more. Here the two
become one node: the tool's event, with the id of its span and everything below it.
"""

from __future__ import annotations

from collections import deque

from replay.formats.inspect.tree import Node, Tree


def join_tools(tree: Tree) -> None:
    """Join each tool event with its span, and hang the agents that tools started below them."""
    joined: dict[int, Node] = {}
    for tool, span in _pairs(tree.nodes):
        tool.id, tool.parent = span.id, _around(span)
        joined[id(span)] = tool
        if span.parent is not None and span.parent.type == "handoff":
            joined[id(span.parent)] = tool
    tree.nodes = [node for node in tree.nodes if id(node) not in joined]
    for node in tree.nodes:
        node.parent = joined.get(id(node.parent), node.parent)
    for tool in tree.nodes:
        agent = tree.spans.get(tool.agent or "")
        if tool.kind == "tool" and agent is not None and agent not in tool.ancestors():
            agent.parent = tool


def _pairs(nodes: list[Node]) -> list[tuple[Node, Node]]:
    """Every tool event with its span, where it has one: same surroundings, same name."""
    waiting: dict[tuple[int, str], deque[Node]] = {}
    for span in nodes:
        if span.kind == "span" and span.type == "tool":
            waiting.setdefault((id(_around(span)), span.name), deque()).append(span)
    pairs = []
    for tool in nodes:
        if tool.kind == "tool":
            own = _first(waiting.get((id(_around(tool)), tool.name), deque()), tool)
            if own is not None:
                pairs.append((tool, own))
    return pairs


def _around(node: Node) -> Node | None:
    """What the node happened in, handoffs left out."""
    return next((above for above in node.ancestors() if above.type != "handoff"), None)


def _first(waiting: deque[Node], tool: Node) -> Node | None:
    """Takes the first span out that can be the tool's; None leaves all of them waiting."""
    for index, span in enumerate(waiting):
        if _holds(span, tool):
            del waiting[index]
            return span
    return None


def _holds(span: Node, tool: Node) -> bool:
    """Was it this span that the tool ran in? By the clock, else by their order in the log."""
    began, done, opened = tool.start_ns, tool.done_ns, span.start_ns
    if began is not None and done is not None and opened is not None:
        return began <= opened <= done
    return span.order < tool.order and (span.ended is None or span.ended > tool.order)
