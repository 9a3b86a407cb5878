"""What is a step, and which span belongs to which?

A step is one model call in one thread with the tool calls it asked for. Steps are numbered from 0
over the whole trace by (start, order in the source): the same number on screen, on the command
line, in JSON and in labels. A span that only groups calls of a model (a framework's `Step 3`)
belongs to the first of them, unless it is the root of the run; any other that nobody asked for to
the nearest step before. Works on any value with the few fields of `Node`, so that the store can
number rows without loading what they say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from replay.trace import AnySpan, ModelCall, Step, ToolCall

MAIN = "main"
"""The thread of model calls that stand below no agent span."""

Kind = Literal["agent", "model", "tool", "retriever", "other"]


class Node(NamedTuple):
    """The part of a span that decides its step. `seq` is its order in the source."""

    id: str
    parent: str | None
    kind: str
    seq: int
    start_ns: int | None = None
    asked_by: str | None = None


class Plan(NamedTuple):
    """The steps of a trace by span id.

    `asks[i]` is the model span of step i, `threads[i]` its agent span (or MAIN), `acts[i]` its
    tool spans in source order. `of` maps every span to its step, None where none came before it.
    `loose` are tool spans no model call of the trace asked for, `orphans` spans whose parent is
    not in the trace.
    """

    asks: tuple[str, ...]
    threads: tuple[str, ...]
    acts: tuple[tuple[str, ...], ...]
    of: dict[str, int | None]
    loose: tuple[str, ...]
    orphans: tuple[str, ...]


def kind_of(span: AnySpan) -> str:
    """The tag of a span: agent, model, tool, retriever or other."""
    return str(type(span).__struct_config__.tag)


def nodes_of(spans: Sequence[AnySpan]) -> list[Node]:
    """The nodes of spans in source order."""
    return [
        Node(
            span.id,
            span.parent,
            kind_of(span),
            seq,
            span.start_ns,
            span.asked_by if isinstance(span, ToolCall) else None,
        )
        for seq, span in enumerate(spans)
    ]


def plan(nodes: Iterable[Node]) -> Plan:
    """Number the steps of a trace and give every span its step."""
    ordered = in_time(nodes)
    by_id = {node.id: node for node in ordered}
    agents = {node.id for node in ordered if node.kind == "agent"}
    threads = Threads({node.id: node.parent for node in ordered}, agents, MAIN)
    asks = tuple(node.id for node in ordered if node.kind == "model")
    number = {ask: index for index, ask in enumerate(asks)}
    acts: list[list[str]] = [[] for _ in asks]
    loose: list[str] = []
    for node in sorted(ordered, key=lambda node: node.seq):
        if node.kind == "tool":
            asker = number.get(node.asked_by or "")
            (loose if asker is None else acts[asker]).append(node.id)
    return Plan(
        asks=asks,
        threads=tuple(threads.above(ask) for ask in asks),
        acts=tuple(map(tuple, acts)),
        of=_steps_of(ordered, by_id, number),
        loose=tuple(loose),
        orphans=tuple(n.id for n in ordered if n.parent is not None and n.parent not in by_id),
    )


def in_time(nodes: Iterable[Node]) -> list[Node]:
    """Nodes by (start, order in the source); one without a start stays behind its predecessor."""
    latest = -(2**63)
    keyed: list[tuple[int, int, Node]] = []
    for node in sorted(nodes, key=lambda node: node.seq):
        if node.start_ns is not None:
            latest = node.start_ns
        keyed.append((latest, node.seq, node))
    keyed.sort(key=lambda entry: entry[:2])
    return [node for _, _, node in keyed]


class Threads:
    """The nearest agent span above each span: however deep they nest, each is passed once.

    `parents` are the spans of a trace with what they hang from, `main` stands for no agent.
    """

    def __init__(
        self, parents: Mapping[str, str | None], agents: Collection[str], main: str
    ) -> None:
        self._parents, self._agents, self._main = parents, agents, main
        self._found: dict[str, str] = {}

    def above(self, span: str) -> str:
        """The nearest agent above a span, which may be one itself."""
        return self.at(self._parents.get(span))

    def at(self, span: str | None) -> str:
        """The nearest agent from a span upwards."""
        passed: dict[str, None] = {}  # in a circle there is no agent
        thread = self._main
        while span is not None and span in self._parents and span not in passed:
            if span in self._found or span in self._agents:
                thread = self._found.get(span, span)
                break
            passed[span] = None
            span = self._parents[span]
        self._found.update(dict.fromkeys(passed, thread))
        return thread


def _steps_of(
    ordered: list[Node], by_id: dict[str, Node], number: dict[str, int]
) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    latest: int | None = None
    first = _first_below(by_id, number)
    for node in ordered:
        latest = number.get(node.id, latest)
        asked = number.get(node.asked_by or "")
        above = by_id.get(node.parent or "")
        if node.id in number:
            found[node.id] = number[node.id]
        elif node.kind == "tool" and asked is not None:
            found[node.id] = asked
        elif above is not None and above.kind == "tool":  # a sub-agent: the step that delegated
            found[node.id] = number.get(above.asked_by or "", latest)
        elif node.kind == "other" and (above is not None or first.get(node.id) != 0):
            found[node.id] = first.get(node.id, latest)
        else:
            found[node.id] = latest
    return found


def _first_below(by_id: dict[str, Node], number: dict[str, int]) -> dict[str, int]:
    """The first step below each span that has any."""
    found: dict[str, int] = {}
    for ask, step in number.items():
        above = by_id.get(by_id[ask].parent or "")
        while above is not None and above.id not in found:
            found[above.id] = step
            above = by_id.get(above.parent or "")
    return found


def build(spans: Sequence[AnySpan]) -> tuple[tuple[Step, ...], tuple[ToolCall, ...], Plan]:
    """The steps and loose tool calls of a whole trace, with the plan they came from."""
    made = plan(nodes_of(spans))
    by_id = {span.id: span for span in spans}
    models = {span.id: span for span in spans if isinstance(span, ModelCall)}
    tools = {span.id: span for span in spans if isinstance(span, ToolCall)}
    steps = tuple(
        Step(
            index=index,
            thread=made.threads[index],
            ask=models[ask],
            acts=tuple(tools[act] for act in made.acts[index]),
        )
        for index, ask in enumerate(made.asks)
    )
    assert len(by_id) >= len(models) + len(tools)
    return steps, tuple(tools[name] for name in made.loose), made
