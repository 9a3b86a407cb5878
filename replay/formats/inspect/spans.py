"""The tree of a sample turned into spans: calls paired with who asked and with their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Raw, Struct, structs

from replay.depth import TOO_DEEP
from replay.errors import BadTrace
from replay.formats.common import derived_id, obj
from replay.formats.inspect import model_calls, tree
from replay.formats.inspect.archive import Attachments
from replay.formats.inspect.model_calls import Conversations, opened
from replay.formats.inspect.tree import (
    SILENT,
    UNDERSTOOD,
    Node,
    Tree,
    agent_span,
    inner_agent,
    inner_id,
    other_span,
)
from replay.formats.source import Tally
from replay.messages import Call, calls, results
from replay.trace import AnySpan, Message, ModelCall, Observation, ToolCall


class _PendingCall(Struct, eq=False):
    """A tool call as its parts turn up: asked for, run (`span` and its event), answered."""

    asked_by: str | None = None
    ask: ModelCall | None = None
    call: Call | None = None
    ran: bool = False
    span: ToolCall | None = None
    event: dict[str, Any] | None = None
    answer: Message | None = None

    def whole(self) -> ToolCall:
        """The call with its answer; what it was made of is let go."""
        span, event = self.span, self.event
        assert span is not None, "a call is whole only once, and only when it has run"
        answer = self.answer or tree.result_message(event or {})
        self.span, self.event, self.ask, self.call = None, None, None, None
        if answer is None:
            return span
        return structs.replace(span, observation=Observation(message=answer))


class Builder:
    """The spans of a sample below its root. `nodes` have their speakers; none is held longer than
    needed."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pool: list[Raw],
        texts: Attachments,
        tally: Tally,
        where: str,
    ) -> None:
        self._nodes = deque(nodes)
        self._texts, self._tally, self._where = texts, tally, where
        self._models = model_calls.Models(texts)
        self._conversations = Conversations(pool, texts)
        self._speaking = {id(node.speaker) for node in nodes if node.kind == "model"}
        self._queue: deque[AnySpan | _PendingCall] = deque()
        self._never_run: dict[int, _PendingCall] = {}
        self._open: dict[str | None, dict[str, _PendingCall]] = {None: {}}

    def spans(self) -> Iterator[AnySpan]:
        """In the order of the events; calls that were asked for and never run come last."""
        kept, queue = _kept(self._nodes), self._queue
        while self._nodes:
            node = self._nodes.popleft()
            if id(node) not in kept:
                continue
            try:
                self._put(node)
            except BadTrace as error:
                self._tally.problem(f"{self._where} event {node.order - 1}", error.why)
            except RecursionError:  # in arguments that stand as text
                self._tally.problem(f"{self._where} event {node.order - 1}", TOO_DEEP)
            while queue:
                first = queue[0]
                if isinstance(first, _PendingCall):
                    if first.answer is None:
                        break
                    first = first.whole()
                yield first
                queue.popleft()
        for each in queue:
            yield each.whole() if isinstance(each, _PendingCall) else each
        yield from map(_never_run, self._never_run.values())

    def _put(self, node: Node) -> None:
        assert node.parent is not None, "only the root has no parent"
        assert node.speaker is not None, "and no speaker"
        parent = self._home(node.parent)
        if node.kind == "model":
            self._model(node, parent, node.speaker.id)
        elif node.kind == "tool":
            self._tool(node, parent, node.speaker.id)
        elif node.type == "agent" or id(node) in self._speaking:
            self._queue.append(agent_span(node, parent, self._texts))
        else:
            self._queue.append(other_span(node, parent, self._texts))
            if node.kind not in UNDERSTOOD:
                self._tally.unknown[f"event {node.kind}"] += 1

    def _home(self, node: Node) -> str:
        """The id of the span that what happened in the node hangs below."""
        return inner_id(node) if node.kind == "tool" and id(node) in self._speaking else node.id

    # --- model calls

    def _model(self, node: Node, parent: str, thread: str) -> None:
        event = opened(node.raw, self._texts, self._tally)
        asked = self._conversations.context_of(thread, event)
        for message in asked.fresh:
            if message.role == "tool":
                self._add_results(thread, message)
        call = self._models.call(node, parent, asked, event)
        self._queue.append(call)
        answer = call.response.message
        if answer is not None:
            self._conversations.answered(thread, answer)
        for each in calls(answer) if answer is not None else ():
            wanted = _PendingCall(asked_by=call.id, ask=call, call=each)
            self._never_run[id(wanted)] = self._want(thread, each.id, wanted)

    def _add_results(self, thread: str, message: Message) -> None:
        for result in results(message):
            wanted = self._found(thread, result.call_id)
            if wanted is not None and wanted.answer is None:
                wanted.answer = message

    # --- tool calls

    def _tool(self, node: Node, parent: str, thread: str) -> None:
        event = obj(self._texts.read(node.raw))
        for name in event.keys() - tree.FIELDS:
            self._tally.unknown[f"tool {name}"] += 1
        span = tree.tool_call(node, parent, event)
        wanted = self._found(thread, span.call_id)
        if wanted is None or wanted.ran:
            again = _PendingCall(asked_by=wanted.asked_by if wanted is not None else None)
            wanted = self._want(thread, span.call_id, again)
        if wanted.asked_by is not None:
            span = structs.replace(span, asked_by=wanted.asked_by)
        if wanted.call is not None and wanted.call.arguments is None:
            span = structs.replace(span, arguments=None, arguments_raw=wanted.call.raw)
        self._never_run.pop(id(wanted), None)
        wanted.ran, wanted.span, wanted.event = True, span, event
        self._queue.append(wanted)
        if id(node) in self._speaking:
            self._queue.append(inner_agent(node))

    def _want(self, thread: str, call_id: str | None, wanted: _PendingCall) -> _PendingCall:
        if call_id is not None:
            self._open.setdefault(thread, {})[call_id] = wanted
            self._open[None][call_id] = wanted
        return wanted

    def _found(self, thread: str, call_id: str | None) -> _PendingCall | None:
        """The latest call of that id in the thread, else in any: a handoff answers elsewhere."""
        if call_id is None:
            return None
        return self._open.get(thread, {}).get(call_id) or self._open[None].get(call_id)


def _kept(nodes: Iterable[Node]) -> set[int]:
    """The nodes that become spans: calls, agents, events, and all they stand in."""
    kept: set[int] = set()
    for node in nodes:
        if node.kind in SILENT or (node.kind == "span" and node.type != "agent"):
            continue
        here: Node | None = node
        while here is not None and id(here) not in kept:
            kept.add(id(here))
            here = here.parent
    return kept


def _never_run(wanted: _PendingCall) -> ToolCall:
    """A call without a tool event: refused, cut off by a limit, or run where the log is silent."""
    ask, call = wanted.ask, wanted.call
    assert ask is not None, "a call without an event was asked for"
    assert call is not None, "by a message that holds it"
    result = next(iter(results(wanted.answer)), None) if wanted.answer else None
    failed = result.text if result is not None and result.is_error else None
    return ToolCall(
        id=derived_id(ask.id, call.position, call.name),
        name=call.name,
        parent=ask.parent,
        start_ns=ask.end_ns,
        time_quality="derived" if ask.end_ns is not None else "none",
        status="unset" if result is None else "error" if failed is not None else "ok",
        error=failed,
        place=ask.place,
        call_id=call.id,
        asked_by=ask.id,
        arguments=call.arguments,
        arguments_raw=call.raw,
        observation=Observation(message=wanted.answer) if wanted.answer else None,
    )


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
