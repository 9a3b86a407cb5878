"""What `codex exec --json` prints: `thread.started`, `turn.*` and `item.*` events, one a line.

Items are what a person watches, not what the model was sent: a command as it was run, not the call;
no prompt, no model, no times, and tokens of whole turns. Where one answer ends and the next begins
is not said. An answer is taken to end when the first of its calls has come back and the model goes
on: calls that ran one after the other are then answers of their own, also where the model had asked
for them together. The events are those of `exec_events.rs` of Codex.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.common import derived_id, known, listed, obj, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Head, Source, Tally, decoded
from replay.messages import content_text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Place,
    Request,
    Status,
    ToolCall,
)

NO_PROMPT = "user prompt not recorded"
NO_BORDERS = "which calls one response made not recorded"
_KNOWN = Fidelity(level=Level.NONE, reasons=(NO_PROMPT, NO_SYSTEM, NO_TOOLS, NO_BORDERS))

_SPOKEN = {"agent_message": "content", "plan": "content", "reasoning": "reasoning_content"}
_SERVED = "web_search"
_PLAN = "todo_list"
_CALLS = {"command_execution", "file_change", "mcp_tool_call", "collab_tool_call", _PLAN}
_UNSAID = {"item.plan.delta", "request_user_input"}
_FAILED = {"failed", "declined"}


class _Event(Struct, frozen=True, kw_only=True, eq=False):
    """One line. `item` is {} where the event is about none."""

    kind: str
    record: dict[str, Any]
    place: Place

    @property
    def item(self) -> dict[str, Any]:
        return obj(self.record.get("item"))

    @property
    def type(self) -> str:
        """What kind of item it is about."""
        return word(self.item.get("type")) or ""


def is_exec(head: Head) -> bool:
    """Does it begin with the event that begins a thread? Words of a wrapper may come first."""
    found = (obj(decoded(line)) for line in head.lines()[:20])
    return any(
        record.get("type") == "thread.started" and isinstance(record.get("thread_id"), str)
        for record in found
    )


def read_exec(source: Source, tally: Tally, name: str) -> Iterator[Batch]:
    """One trace a thread, of the format `name`. Raises BadTrace where none has an item."""
    threads: dict[str, list[_Event]] = {}
    own: list[_Event] = []
    for number, record in source.records(tally):
        tally.counts["lines"] += 1
        kind = word(record.get("type")) or ""
        if kind == "thread.started":
            own = threads.setdefault(
                word(record.get("thread_id")) or "", own if not threads else []
            )
        own.append(_Event(kind=kind, record=record, place=Place(message=number - 1, line=number)))
    told = 0
    for thread, events in threads.items():
        first = next((event.item for event in events if event.item), None)
        if first is None:
            continue
        told += 1
        yield _batch(thread, first, events, source, tally, name)
    if not told:
        raise BadTrace(source.display, "", "contains no item of a Codex run")


def _batch(
    thread: str,
    first: dict[str, Any],
    events: Iterable[_Event],
    source: Source,
    tally: Tally,
    name: str,
) -> Batch:
    """A thread that is resumed has the same id and other items: its output is told by the first."""
    tally.counts["sessions"] += 1
    builder = _SpanBuilder(thread, tally)
    for event in events:
        builder.build(event)
    spans = builder.finish()
    root = AgentSpan(
        id=thread,
        name=name,
        time_quality="none",
        status=builder.status,
        error=builder.error,
        place=Place(span=thread),
        extra=known(turn_usage=builder.usage, notices=builder.notices),
    )
    header = Header(
        format=name,
        source_id=f"{thread} exec {derived_id(thread, msgspec.json.encode(first))[:8]}",
        run=thread,
        path=source.display,
        agent=name,
    )
    tally.counts["traces"] += 1
    return Batch(header=header, spans=(root, *spans), last=True)


class _SpanBuilder:
    """Tells a thread event by event. `usage` are the tokens of each turn, `notices` what Codex said
    of itself; `_heard` that a call of the answer being written has come back."""

    def __init__(self, thread: str, tally: Tally) -> None:
        self.status: Status = "unset"
        self.error: str | None = None
        self.usage: list[Json] = []
        self.notices: list[Json] = []
        self._parent, self._tally = thread, tally
        self._thread = Thread(parent=thread, request=Request(), fidelity=_KNOWN, tally=tally)
        self._body: dict[str, Any] = {}
        self._begun: _Event | None = None
        self._results: list[tuple[_Event, str]] = []
        self._served: list[_Event] = []
        self._ids: dict[str, str] = {}
        self._plans: dict[str, Json] = {}
        self._errors: dict[str, str] = {}
        self._fine: set[str] = set()
        self._heard = False
        self._turns = 0

    def build(self, event: _Event) -> None:
        if event.kind.startswith("item."):
            self._item(event)
        elif event.kind == "turn.started":
            self._close()
            self._turns += 1
            self._ids.clear()
        elif event.kind == "turn.completed":
            self._complete_turn(event)
        elif event.kind in ("turn.failed", "error"):
            why = word(obj(event.record.get("error")).get("message")) or word(
                event.record.get("message")
            )
            self.notices.append(known(kind=event.kind, text=why, line=event.place.line))
            if event.kind == "turn.failed":
                self._close()
                self.status, self.error = "error", why or "turn failed"
        elif event.kind != "thread.started" and event.kind not in _UNSAID:
            self._tally.unknown[event.kind or "line without a type"] += 1

    def finish(self) -> tuple[AnySpan, ...]:
        self._close()
        for call in self._thread.open_calls():
            if call.call_id not in self._fine and call.call_id not in self._errors:
                self._tally.problem(f"line {call.place.line}", f"{call.name} did not come back")
        return tuple(map(self._settle, self._thread.spans()))

    # --- items

    def _item(self, event: _Event) -> None:
        kind, name = event.type, word(event.item.get("id")) or ""
        done = event.kind == "item.completed"
        if done or kind == _PLAN:
            self._tally.counts[kind or "item without a type"] += 1
        if kind in _SPOKEN:
            if done:
                self._add_text(event, _SPOKEN[kind])
        elif kind == _PLAN:
            self._add_plan(event, name)
        elif kind in _CALLS:
            if name not in self._ids:
                self._add_call(event, name, _call(event.item))
            if done:
                self._heard = True
                self._results.append((event, self._ids[name]))
        elif kind == _SERVED:
            if done:
                self._begin(event)
                self._served.append(event)
        elif kind == "error":
            text = word(event.item.get("message"))
            self.notices.append(known(kind="error", text=text, line=event.place.line))
        else:
            self._tally.unknown[kind or "item without a type"] += 1

    def _add_text(self, event: _Event, field: str) -> None:
        if self._body.get("tool_calls"):
            self._close()
        self._begin(event)
        words = [self._body.get(field), word(event.item.get("text"))]
        self._body[field] = "\n".join(filter(None, words))

    def _add_plan(self, event: _Event, name: str) -> None:
        """Each state of the list was a call; at the end of a turn it is only told again."""
        items = event.item.get("items")
        if self._plans.get(name) == items:
            return
        self._plans[name] = items
        call_id = self._add_call(event, f"{name} {event.place.line}", (_PLAN, {"items": items}))
        self._fine.add(call_id)
        self._heard = True

    def _add_call(self, event: _Event, name: str, call: tuple[str, Json]) -> str:
        if self._heard:
            self._close()
        self._begin(event)
        call_id = f"{name}.{self._turns}" if self._turns > 1 else name
        self._ids[name] = call_id
        given = msgspec.json.encode(call[1]).decode()
        function = {"name": call[0], "arguments": given}
        self._body.setdefault("tool_calls", []).append(
            {"id": call_id, "type": "function", "function": function}
        )
        return call_id

    def _begin(self, event: _Event) -> None:
        self._begun = self._begun or event

    def _close(self) -> None:
        """The answer being written has ended: what its calls gave is what the next one saw."""
        begun, self._begun = self._begun, None
        body, self._body = self._body, {}
        self._heard = False
        if begun is not None:
            name = derived_id(self._parent, "answer", begun.place.message)
            message = Message(
                dialect="openai",
                body={"role": "assistant", "content": body.pop("content", None), **body},
            )
            self._thread.add_model_call(message, Turn(id=name, place=begun.place))
            self._thread.add_spans(
                *(_search_span(event, name, self._parent) for event in self._served)
            )
            self._served = []
        for event, call_id in self._results:
            self._add_result(event, call_id)
        self._results = []

    def _add_result(self, event: _Event, call_id: str) -> None:
        content, why = _result(event.item)
        if why is not None:
            self._errors[call_id] = why
        else:
            self._fine.add(call_id)
        if content is None:
            return
        body = {"role": "tool", "tool_call_id": call_id, "content": content}
        self._thread.add_message(
            Message(dialect="openai", body=body),
            place=event.place,
            errors={call_id: why} if why is not None else None,
        )

    def _settle(self, span: AnySpan) -> AnySpan:
        """A call of which only the outcome was printed has that."""
        if not isinstance(span, ToolCall) or span.status != "unset" or span.call_id is None:
            return span
        error = self._errors.get(span.call_id)
        if error is None and span.call_id not in self._fine:
            return span
        return structs.replace(span, status="ok" if error is None else "error", error=error)

    # --- turns

    def _complete_turn(self, event: _Event) -> None:
        self._close()
        self.status, self.error = "ok", None
        usage = obj(event.record.get("usage"))
        if usage:
            self.usage.append(usage)
            given, out = usage.get("input_tokens"), usage.get("output_tokens")
            self._tally.problem(
                f"line {event.place.line}",
                f"{given} input and {out} output tokens are of the whole turn: which call took how"
                " many is not recorded",
            )


def _call(item: dict[str, Any]) -> tuple[str, Json]:
    """(name, arguments) of an item that stands for a call, as far as Codex prints them."""
    kind = word(item.get("type")) or ""
    if kind == "command_execution":
        return kind, known(command=item.get("command"))
    if kind == "mcp_tool_call":
        name = "__".join(filter(None, ("mcp", word(item.get("server")), word(item.get("tool")))))
        return name, item.get("arguments") or {}
    if kind == "collab_tool_call":
        given = known(prompt=item.get("prompt"), receivers=item.get("receiver_thread_ids"))
        return word(item.get("tool")) or kind, given
    return kind, known(changes=item.get("changes"))


def _result(item: dict[str, Any]) -> tuple[str | None, str | None]:
    """(what came back, why it failed): None where nothing was printed, and where it did not."""
    kind, status = word(item.get("type")), word(item.get("status"))
    why = status if status in _FAILED else None
    if kind == "command_execution":
        code = item.get("exit_code")
        failed = isinstance(code, int) and code != 0
        return word(item.get("aggregated_output")) or "", f"exit code {code}" if failed else why
    if kind == "mcp_tool_call":
        error = word(obj(item.get("error")).get("message"))
        given = item.get("result")
        shown = content_text(listed(obj(given).get("content"))) if given is not None else error
        return shown, error or why
    if kind == "collab_tool_call":
        states = item.get("agents_states")
        return (msgspec.json.encode(states).decode() if states else None), why
    return None, why


def _search_span(event: _Event, answer: str, parent: str) -> ToolCall:
    """A search that the provider ran in the middle of its answer."""
    return ToolCall(
        id=derived_id(answer, _SERVED, event.place.message),
        name=_SERVED,
        parent=parent,
        time_quality="none",
        status="ok",
        place=event.place,
        call_id=word(event.item.get("id")),
        asked_by=answer,
        arguments=known(query=event.item.get("query"), action=event.item.get("action")),
        extra={"run_by": "provider"},
    )
