"""The tree of a sample turned into spans: calls paired with who asked and with their answers.

A tool call knows its model call by the call's id within its thread. Its answer is the tool message
that a later model call was shown; where none was, the message its event amounts to. Solvers and
steps are kept where something below them is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct, structs

from replay.formats.fields import obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.contexts import Conversations
from replay.formats.inspect.events import (
    SILENT,
    UNDERSTOOD,
    agent_span,
    inner_agent,
    inner_id,
    other_span,
)
from replay.formats.inspect.model import model_call, offered
from replay.formats.inspect.pairs import join_tools
from replay.formats.inspect.tool import result_message, tool_call
from replay.formats.inspect.tree import Node, Tree, find_speakers
from replay.formats.intake import Tally
from replay.formats.normal import derived_id
from replay.messages import Call, calls, results
from replay.trace import AnySpan, Json, Message, ModelCall, Observation, Tool, ToolCall


class Scored(NamedTuple):
    """A score event: by whom, what, and the model call of the scored thread before it."""

    scorer: str
    score: dict[str, Any]
    intermediate: bool
    after: str | None


class _Wanted(Struct):
    """A tool call as its parts turn up: asked for, run (`slot` in the spans), answered."""

    asked_by: ModelCall | None = None
    call: Call | None = None
    event: dict[str, Any] | None = None
    slot: int | None = None
    answer: Message | None = None


class Builder:
    """The spans of a sample below its root, in the order of its events; `scored` its scores."""

    def __init__(
        self, sample: dict[str, Any], tree: Tree, texts: Attachments, tally: Tally
    ) -> None:
        self.spans: list[AnySpan] = []
        self.scored: list[Scored] = []
        self._texts, self._tally = texts, tally
        self._conversations = Conversations(sample, texts)
        self._offered: tuple[Json, tuple[Tool, ...] | None] = (None, None)
        self._wanted: list[_Wanted] = []
        self._open: dict[tuple[str | None, str], _Wanted] = {}
        self._latest: dict[str, str] = {}
        join_tools(tree)
        find_speakers(tree.nodes)
        self._speaking = {id(node.speaker) for node in tree.nodes if node.kind == "model"}
        kept = _kept(tree.nodes)
        for node in tree.nodes:
            if id(node) in kept:
                self._put(node)
            elif node.kind == "score":
                self._score(node)
        for wanted in self._wanted:
            self._settle(wanted)

    @property
    def asks(self) -> int:
        """How many model calls there are."""
        return sum(isinstance(span, ModelCall) for span in self.spans)

    def _put(self, node: Node) -> None:
        assert node.parent is not None, "only the root has no parent"
        assert node.speaker is not None, "and no speaker"
        parent = self._home(node.parent)
        if node.kind == "model":
            self._model(node, parent, node.speaker.id)
        elif node.kind == "tool":
            self._tool(node, parent, node.speaker.id)
        elif node.type == "agent" or id(node) in self._speaking:
            self.spans.append(agent_span(node, parent, self._texts))
        else:
            self.spans.append(other_span(node, parent, self._texts))
            if node.kind not in UNDERSTOOD and node.kind != "span":
                self._tally.unknown[f"event {node.kind}"] += 1

    def _home(self, node: Node) -> str:
        """The id of the span that what happened in the node hangs below."""
        return inner_id(node) if node.kind == "tool" and id(node) in self._speaking else node.id

    # --- model calls

    def _model(self, node: Node, parent: str, thread: str) -> None:
        asked = self._conversations.asked(thread, node.event)
        for message in asked.fresh:
            self._heard(thread, message)
        call = model_call(node, parent, asked, self._tools(node.event.get("tools")), self._texts)
        self.spans.append(call)
        self._latest[thread] = call.id
        for each in calls(call.response.message) if call.response.message else ():
            self._want(thread, each.id, _Wanted(asked_by=call, call=each))

    def _tools(self, declared: Json) -> tuple[Tool, ...] | None:
        """The tools offered, the same objects as long as the log repeats the same list."""
        if self._offered[0] != declared:
            self._offered = (declared, offered(declared, self._texts))
        return self._offered[1]

    # --- tool calls

    def _tool(self, node: Node, parent: str, thread: str) -> None:
        span = tool_call(node, parent, self._texts)
        wanted = self._found(thread, span.call_id)
        if wanted is None or wanted.event is not None:
            asked_by = wanted.asked_by if wanted is not None else None
            wanted = self._want(thread, span.call_id, _Wanted(asked_by=asked_by))
        wanted.event, wanted.slot = node.event, len(self.spans)
        if wanted.asked_by is not None:
            span = structs.replace(span, asked_by=wanted.asked_by.id)
        if wanted.call is not None and wanted.call.arguments is None:
            span = structs.replace(span, arguments=None, arguments_raw=wanted.call.raw)
        self.spans.append(span)
        if id(node) in self._speaking:
            self.spans.append(inner_agent(node))

    def _want(self, thread: str, call_id: str | None, wanted: _Wanted) -> _Wanted:
        self._wanted.append(wanted)
        if call_id is not None:
            self._open[thread, call_id] = self._open[None, call_id] = wanted
        return wanted

    def _found(self, thread: str, call_id: str | None) -> _Wanted | None:
        """The latest call of that id in the thread, else in any: a handoff answers elsewhere."""
        if call_id is None:
            return None
        return self._open.get((thread, call_id)) or self._open.get((None, call_id))

    def _heard(self, thread: str, message: Message) -> None:
        for result in results(message):
            wanted = self._found(thread, result.call_id)
            if wanted is not None and wanted.answer is None:
                wanted.answer = message

    def _settle(self, wanted: _Wanted) -> None:
        """Give a call its answer; one that was asked for and never run becomes a span here."""
        if wanted.slot is None:
            self.spans.append(_never_run(wanted))
            return
        span = self.spans[wanted.slot]
        assert isinstance(span, ToolCall)
        answer = wanted.answer or result_message(wanted.event or {}, self._texts)
        if answer is not None:
            self.spans[wanted.slot] = structs.replace(span, observation=Observation(message=answer))

    # --- scores

    def _score(self, node: Node) -> None:
        above = list(node.ancestors())
        scorer = next((each.name for each in above if each.type == "scorer"), "score")
        judged = (self._latest.get(each.id) for each in above if each.type != "scorer")
        self.scored.append(
            Scored(
                scorer=word(node.event.get("scorer")) or scorer,
                score=obj(node.event.get("score")),
                intermediate=bool(node.event.get("intermediate")),
                after=next((ask for ask in judged if ask is not None), None),
            )
        )


def _kept(nodes: list[Node]) -> set[int]:
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


def _never_run(wanted: _Wanted) -> ToolCall:
    """A call without a tool event: refused, cut off by a limit, or run where the log is silent."""
    ask, call = wanted.asked_by, wanted.call
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
