"""The events of a sample as a tree: which event happened in which span, or step, or tool.

Three generations meet here. Since May 2025 `span_begin` and `span_end` name their parents and an
event names its span; before, `step` events opened and closed in order; and tools and subtasks used
to hold their `events` inside. `spans` pairs tools with their spans.

Only what decides an event's place is looked at at first; what it says stays bytes until its turn,
when it becomes a span: a tool call, or what is no call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sys import intern
from typing import Any

import msgspec
from msgspec import Raw, Struct

from replay.formats.common import Times, derived_id, known, obj, word
from replay.formats.inspect.archive import Attachments, entries, ns, parts
from replay.formats.source import Tally
from replay.messages import parse_arguments
from replay.trace import AgentSpan, Json, Message, OtherSpan, Place, Status, ToolCall

SPEAKERS = {"agent", "tool", "scorer", "subtask", "handoff"}
"""Types of node whose model calls are a thread of their own, not their surroundings'."""


class Glance(Struct, gc=False):
    """The fields of an event that decide its place."""

    event: str = ""
    uuid: str | None = None
    span_id: str | None = None
    id: str | None = None
    parent_id: str | None = None
    name: str | None = None
    type: str | None = None
    action: str | None = None
    function: str | None = None
    agent_span_id: str | None = None
    timestamp: str | None = None
    completed: str | None = None
    pending: bool | None = None
    events: Raw = Raw(b"[]")


_glance = msgspec.json.Decoder(Glance).decode
_NO_EVENTS = len("[]")


def _glanced(raw: Raw) -> Glance | None:
    """An event by its place, None where it is no object."""
    try:
        return _glance(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = parts(raw)
    if found is None:
        return None
    said = {name: _word(found.get(name)) for name in Glance.__struct_fields__}
    odd: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    odd.update(pending=odd.get("pending") == "True", events=found.get("events", Raw(b"[]")))
    return Glance(**odd)


def _word(raw: Raw | None) -> str | None:
    """A text or a number or a truth as text, None for anything else."""
    try:
        value = msgspec.json.decode(raw) if raw is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return str(value) if value is True else word(value)


class Node(Struct, eq=False, gc=False):
    """An event; a span or a step is its begin event, with the time and the order of its end.

    `kind` is the event's word ("span" for spans and steps), `type` the span's type; `own` is the
    source's id of it. `order` and `ended` count the events of the sample; `next_ns` is when the
    event after this one happened, `agent` the span of the agent that a tool started.
    """

    id: str
    kind: str
    type: str
    name: str
    order: int
    raw: Raw = Raw(b"{}")
    own: str | None = None
    parent: Node | None = None
    start_ns: int | None = None
    done_ns: int | None = None
    next_ns: int | None = None
    ended: int | None = None
    ended_ns: int | None = None
    pending: bool = False
    agent: str | None = None
    speaker: Node | None = None

    def ancestors(self) -> Iterator[Node]:
        """From the parent up to the root."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def speaker_type(self) -> str:
        return self.speaker.type if self.speaker is not None else ""

    @property
    def place(self) -> Place:
        """Where it stands: under its uuid, which logs have since the autumn of 2025, or span id."""
        return Place(span=self.own)

    @property
    def times(self) -> Times:
        """From its begin to its end, as far as they are told."""
        end = self.ended_ns if self.done_ns is None else self.done_ns
        return Times(self.start_ns, end, "none" if self.start_ns is None else "exact")

    @property
    def call_times(self) -> Times:
        """Of a call: one that does not say when it was done was so before the next event."""
        told = self.done_ns is not None or self.pending or self.next_ns is None
        if self.start_ns is None or told:
            return self.times
        return Times(self.start_ns, self.next_ns, "derived")

    def status(self, error: str | None, failed: Json = None) -> Status:
        """Pending is neither: the run ended before the call did."""
        if error is not None or failed:
            return "error"
        return "unset" if self.pending else "ok"


class Tree:
    """The nodes of a sample in the order of its events, each below the span it happened in.

    `spans` finds a node by the id of its span. The root stands for the sample itself. `tools`
    counts tool events, `first_ns` and `last_ns` are when the first and the last event happened.
    """

    def __init__(self, root: str, events: Sequence[Raw], tally: Tally, where: str) -> None:
        self.root = Node(id=root, kind="span", type="agent", name="", order=0)
        self.nodes: list[Node] = []
        self.spans: dict[str, Node] = {}
        self.tools = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._tally, self._where = tally, where
        self._order = 0
        self._taken = {root}
        self._strange: set[str] = set()
        self._read(events, self.root)
        self._taken.clear()

    def _read(self, events: Sequence[Raw], home: Node) -> None:
        """A list of events that happened in `home`."""
        steps = [home]
        last: Node | None = None
        for index, raw in enumerate(events):
            event = _glanced(raw)
            if event is None:
                self._tally.problem(f"{self._where} event {index}", "is not an object")
                continue
            self._order += 1
            at_ns = ns(event.timestamp)
            if last is not None:
                last.next_ns = at_ns
            if home is self.root:
                self._count(event, at_ns)
            last = self._put(event, raw, at_ns, steps)

    def _count(self, event: Glance, at_ns: int | None) -> None:
        self.tools += event.event == "tool"
        if at_ns is not None:
            self.first_ns = at_ns if self.first_ns is None else min(self.first_ns, at_ns)
            self.last_ns = at_ns if self.last_ns is None else max(self.last_ns, at_ns)

    def _put(self, event: Glance, raw: Raw, at_ns: int | None, steps: list[Node]) -> Node | None:
        """One event; `steps` are the steps open around it, innermost last, the home first.

        Gives the event's node where it is no begin and no end.
        """
        kind = event.event
        if kind == "span_begin":
            self._begin(event, raw, at_ns, steps[0])
        elif kind == "span_end":
            self._end(event, at_ns)
        elif kind == "step" and event.action == "end":
            self._end_step(event, at_ns, steps)
        elif kind == "step":
            sort = event.type or "step"
            steps.append(self._add(event, raw, at_ns, "span", sort, steps[-1], None))
        else:
            below = self._named(event.span_id, steps[-1])
            kind = intern(kind)
            node = self._add(event, raw, at_ns, kind, kind, below, event.uuid)
            node.done_ns = ns(event.completed)
            node.pending = bool(event.pending)
            if kind == "tool":
                node.name = intern(event.function or "")
                node.agent = event.agent_span_id
            if len(memoryview(event.events)) > _NO_EVENTS:
                self._read(entries(event.events), node)
            return node
        return None

    def _begin(self, event: Glance, raw: Raw, at_ns: int | None, home: Node) -> None:
        own, sort = event.id or None, event.type or "step"
        node = self._add(event, raw, at_ns, "span", sort, self._named(event.parent_id, home), own)
        self.spans[own or node.id] = node

    def _end(self, event: Glance, at_ns: int | None) -> None:
        node = self.spans.get(event.id or "")
        if node is not None and node.ended is None:
            node.ended, node.ended_ns = self._order, at_ns

    def _end_step(self, event: Glance, at_ns: int | None, steps: list[Node]) -> None:
        """Closes the innermost step of that name and what is still open in it."""
        name = event.name or None
        depth = next((d for d in range(len(steps) - 1, 0, -1) if steps[d].name == name), None)
        if depth is None:
            self._tally.problem(self._where, f"step {name} ends without a begin event")
            return
        for node in steps[depth:]:
            node.ended, node.ended_ns = self._order, at_ns
        del steps[depth:]

    def _named(self, name: str | None, otherwise: Node) -> Node:
        """The span an event names. One that was never begun is a problem, told once."""
        if not name:
            return otherwise
        found = self.spans.get(name)
        if found is not None:
            return found
        if name not in self._strange:
            self._strange.add(name)
            self._tally.problem(self._where, f"span {name} has events but no begin event")
        return otherwise

    def _add(
        self,
        event: Glance,
        raw: Raw,
        at_ns: int | None,
        kind: str,
        sort: str,
        parent: Node,
        own: str | None,
    ) -> Node:
        node = Node(
            id=self._unused(own),
            kind=kind,
            type=sort,
            name=event.name or sort,
            order=self._order,
            raw=raw,
            own=own or None,
            parent=parent,
            start_ns=at_ns,
        )
        self.nodes.append(node)
        return node

    def _unused(self, own: str | None) -> str:
        """The source's own id; a derived one where it has none or has used it before."""
        if not own or own in self._taken:
            own = derived_id(self.root.id, self._order)
        self._taken.add(own)
        return own


def find_speakers(nodes: Sequence[Node]) -> None:
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


SILENT = {"sample_init", "score"}
"""Events that are no spans: the first repeats the sample's own fields, scores are kept as such."""

NAMED_BY = {
    "sandbox": "action", "approval": "decision", "sample_limit": "type", "info": "source",
    "compaction": "type", "interrupt": "source", "subtask": "name", "review": "decision",
    "sentinel": "action",
}  # fmt: skip
"""The field that tells events of a kind apart."""

UNDERSTOOD = {
    "span", "state", "store", "logger", "input", "error", "score_edit", "branch", "anchor",
    "checkpoint", *NAMED_BY,
}  # fmt: skip

_PLACED = {
    "event", "timestamp", "completed", "uuid", "span_id", "working_start", "events",
    "input_ansi", "traceback_ansi",
}  # fmt: skip
"""Fields that a span has a place for, or that repeat another one in colour."""
_SPAN_PLACED = _PLACED | {"id", "parent_id", "name", "type", "action"}


def agent_span(node: Node, parent: str, texts: Attachments) -> AgentSpan:
    """An agent, or a scorer or subtask that asks a model and so has a thread of its own."""
    start, end, quality = node.times
    extra = _extra(node, obj(texts.read(node.raw)))
    return AgentSpan(
        id=node.id,
        name=node.name,
        parent=parent,
        start_ns=start,
        end_ns=end,
        time_quality=quality,
        place=node.place,
        extra=extra if node.type == "agent" else {"type": node.type, **extra},
    )


def inner_agent(tool: Node) -> AgentSpan:
    """The thread of a tool that asks a model without saying that it is an agent."""
    start, end, quality = tool.call_times
    return AgentSpan(
        id=inner_id(tool),
        name=tool.name or "tool",
        parent=tool.id,
        start_ns=start,
        end_ns=end,
        time_quality=quality,
        place=tool.place,
        extra={"type": "tool"},
    )


def inner_id(tool: Node) -> str:
    return derived_id(tool.id, "agent")


def other_span(node: Node, parent: str, texts: Attachments) -> OtherSpan:
    """A span or step that holds others, or an event worth its place in the tree."""
    start, end, quality = node.times
    event = obj(texts.read(node.raw))
    error = _error(event) if node.kind == "error" else None
    return OtherSpan(
        id=node.id,
        name=node.name if node.kind == "span" else _named(node, event),
        parent=parent,
        start_ns=start,
        end_ns=end,
        time_quality=quality,
        status="error" if error else "unset",
        error=error,
        place=node.place,
        extra=_extra(node, event),
        operation=node.type,
    )


def failed_attempts(retries: Sequence[Raw], root: str, texts: Attachments) -> list[OtherSpan]:
    """The attempts of a sample that ended in an error before the one that is recorded.

    Of their events a log keeps those since their last model call: they are counted, and tell
    when it was, but are no steps of the run.
    """
    return [_attempt(number, raw, root, texts) for number, raw in enumerate(retries, 1)]


def _attempt(number: int, raw: Raw, root: str, texts: Attachments) -> OtherSpan:
    said = {n: texts.read(each) for n, each in (parts(raw) or {}).items() if n in _SAID}
    events = entries((parts(raw) or {}).get("events"))
    stamps = (parts(event) or {} for event in events)
    times = [ns(texts.read(each["timestamp"])) for each in stamps if "timestamp" in each]
    known_times = [at for at in times if at is not None]
    return OtherSpan(
        id=derived_id(root, "attempt", number),
        name=f"attempt {number} failed",
        parent=root,
        start_ns=min(known_times, default=None),
        end_ns=max(known_times, default=None),
        time_quality="derived" if known_times else "none",
        status="error",
        error=word(said.get("message")) or "error",
        extra=known(traceback=said.get("traceback"), events=len(events) or None),
        operation="retry",
    )


_SAID = ("message", "traceback")


def _named(node: Node, event: dict[str, Any]) -> str:
    detail = word(event.get(NAMED_BY.get(node.kind, "")))
    return f"{node.kind} {detail}" if detail else node.kind


def _error(event: dict[str, Any]) -> str:
    return word(obj(event.get("error")).get("message")) or "error"


def _extra(node: Node, event: dict[str, Any]) -> dict[str, Json]:
    """All that the event says beside what a span has a place for; of a change, the changes."""
    placed = _SPAN_PLACED if node.kind == "span" else _PLACED
    return known(**{name: value for name, value in event.items() if name not in placed})


FIELDS = {
    "event", "timestamp", "completed", "uuid", "span_id", "working_start", "working_time",
    "metadata", "pending", "type", "id", "function", "arguments", "view", "result", "truncated",
    "error", "events", "agent", "agent_span_id", "failed", "message_id", "internal",
}  # fmt: skip


def tool_call(node: Node, parent: str, event: dict[str, Any]) -> ToolCall:
    """The tool call of a `tool` event, not yet answered and not yet asked for."""
    error = obj(event.get("error"))
    kind = word(error.get("type"))
    said = word(error.get("message")) or kind
    start, end, quality = node.call_times
    arguments, raw = parse_arguments(event.get("arguments"))
    return ToolCall(
        id=node.id,
        name=node.name or "unknown tool",
        parent=parent,
        start_ns=start,
        end_ns=end,
        time_quality=quality,
        status=node.status(said, event.get("failed")),
        error=said,
        place=node.place,
        extra=_tool_extra(
            error_type=kind,
            truncated=event.get("truncated"),
            agent=event.get("agent"),
            pending=event.get("pending"),
            working_time=event.get("working_time"),
            metadata=event.get("metadata"),
        ),
        call_id=word(event.get("id")),
        arguments=arguments,
        arguments_raw=raw,
    )


def _tool_extra(**said: Json) -> dict[str, Json]:
    return known(**{name: value for name, value in said.items() if value is not None})


def result_message(event: dict[str, Any]) -> Message | None:
    """The tool message that a `tool` event amounts to, None where it has no result yet."""
    if event.get("pending") or not ("result" in event or event.get("error")):
        return None
    result = event.get("result")
    content = result if isinstance(result, (str, list)) else _as_content(result)
    body = {
        "role": "tool",
        "content": content,
        "tool_call_id": event.get("id"),
        "function": event.get("function"),
        "error": event.get("error"),
    }
    return Message(
        dialect="inspect", body={name: value for name, value in body.items() if value is not None}
    )


def _as_content(result: Json) -> Json:
    """A content block is a list of one; Inspect shows the model any other value as Python text."""
    if result is None:
        return ""
    return [result] if isinstance(result, dict) else str(result)
