"""Sessions of GitHub Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`; in older
releases `<session>.jsonl` in that folder. What `copilot --output-format json` prints is another
recording of the same run, without the system prompt and the tokens of the input.

One event a line (`{"type", "data", "id", "timestamp", "parentId"}`), as the JSON Schema that comes
with the package has them. One trace a session, which is held while it is read. The system prompt is
recorded, the tools are not. Events of a sub-agent name it (`agentId`, before that the call that
sent it): they are a thread below that call. After a compaction its summary is known, but not what
else was kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.common import (
    count,
    derived_id,
    known,
    listed,
    ns,
    obj,
    stop,
    total_usage,
    word,
)
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.source import Head, Source, Tally, decoded
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Context,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Place,
    Request,
    Response,
    Status,
    ToolCall,
    Usage,
)

NAME = "copilot-cli"
TITLE = "GitHub Copilot CLI sessions"
FILES = "events.jsonl in ~/.copilot/session-state, output of --output-format json"
FIDELITY = (Level.PARTIAL, Level.NONE)
LACKS = (
    "the tools; what a compaction kept; in old sessions and in printed output the system prompt and"
    " input tokens"
)
VERIFIED = "real files"

NO_REQUEST = "request of a compaction not recorded"
NO_HISTORY = "conversation after a compaction not recorded"
TRUNCATED = "messages removed by a truncation not known"

_BESIDE = {
    "abort", "agent", "assistant", "auto_mode_switch", "capabilities", "command", "commands",
    "elicitation", "exit_plan_mode", "external_tool", "hook", "human_response", "mcp",
    "mcp_app", "model", "pending_messages", "permission", "prompt_cache_break", "result",
    "sampling", "sandbox", "session", "session_limits_exhausted", "skill", "subagent", "system",
    "tool", "tool_search", "ui", "user", "user_input", "workflow",
}  # fmt: skip
"""First words of the events of the schema; most tell the screen something, and no model."""


class _Event(Struct, frozen=True, kw_only=True, eq=False):
    """One line. `agent` is the sub-agent it is of, None for the session's own."""

    kind: str
    data: dict[str, Any]
    place: Place
    agent: str | None
    at_ns: int | None


def sniff(head: Head) -> bool:
    """Does a line begin a session, or an answer in it, as only Copilot writes it?"""
    found = (obj(decoded(line)) for line in head.lines()[:40])
    return any(_begins(record) for record in found)


def _begins(record: dict[str, Any]) -> bool:
    data = obj(record.get("data"))
    if record.get("type") == "assistant.turn_start":
        return "turnId" in data and "parentId" in record
    named = "copilotVersion" in data or data.get("producer") == "copilot-agent"
    return record.get("type") == "session.start" and "sessionId" in data and named


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where the session has no message of a model."""
    events = list(_events(source, tally))
    about = next((event.data for event in events if event.kind == "session.start"), {})
    if not any(event.kind == "assistant.message" for event in events):
        raise BadTrace(source.display, "", "contains no message of a model")
    ended = next((event.data for event in events if event.kind == "result"), {})
    own_name = word(about.get("sessionId"))
    name = own_name or word(ended.get("sessionId")) or derived_id(NAME, events[0].place.span)
    tally.counts["sessions"] += 1
    usages = _usages(events)
    threads: dict[str | None, _SpanBuilder] = {}
    for event in events:
        agent = event.agent
        if agent not in threads:
            parent = name if agent is None else derived_id(name, agent)
            threads[agent] = _SpanBuilder(parent, usages, tally)
        threads[agent].build(event)
    main = threads.pop(None, None) or _SpanBuilder(name, usages, tally)
    spans = list(main.finish())
    subs = list(_sub_agents(events, threads, name, spans))
    end_ns = max((event.at_ns for event in events if event.at_ns is not None), default=None)
    start_ns = min((event.at_ns for event in events if event.at_ns is not None), default=None)
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=start_ns,
        end_ns=end_ns,
        time_quality="none" if start_ns is None else "derived",
        status=main.status,
        error=main.error,
        place=Place(span=name),
        extra=known(signals=main.signals),
    )
    header = Header(
        format=NAME,
        source_id=name if own_name is not None else f"{name} output",
        run=name,
        path=source.display,
        title=title_line(main.title or main.asked),
        agent=NAME,
        labels=_labels(about),
        start_ns=start_ns,
        end_ns=end_ns,
    )
    tally.counts["traces"] += 1
    yield Batch(header=header, spans=(root, *spans, *subs), last=True)


def _events(source: Source, tally: Tally) -> Iterator[_Event]:
    for number, record in source.records(tally):
        kind, data = word(record.get("type")) or "", obj(record.get("data"))
        if kind == "result":  # the last line of what is printed
            data = record
        tally.counts["events"] += 1
        if kind.partition(".")[0] not in _BESIDE:
            tally.unknown[kind or "line without a type"] += 1
            continue
        yield _Event(
            kind=kind,
            data=data,
            place=Place(span=word(record.get("id")), message=number - 1, line=number),
            agent=word(record.get("agentId")) or word(data.get("parentToolCallId")),
            at_ns=ns(record.get("timestamp")),
        )


def _usages(events: list[_Event]) -> dict[str, dict[str, Any]]:
    """What was recorded of each answer, by its id at the provider."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        told = obj(event.data.get("usage")) if event.kind == "session.usage_record" else event.data
        name = word(told.get("apiCallId"))
        if name is not None and event.kind in ("session.usage_record", "assistant.usage"):
            found[name] = told
    return found


def _sub_agents(
    events: list[_Event], threads: dict[str | None, _SpanBuilder], name: str, above: list[AnySpan]
) -> Iterator[AnySpan]:
    """The threads of sub-agents, below the calls that sent them."""
    started = {
        key: event.data
        for event in events
        if event.kind == "subagent.started"
        for key in (event.agent, word(event.data.get("toolCallId")))
    }
    calls = {span.call_id: span.id for span in above if isinstance(span, ToolCall)}
    for key, thread in threads.items():
        spans = thread.finish()
        if not spans:
            continue
        about = started.get(key, {})
        yield AgentSpan(
            id=derived_id(name, key),
            name=word(about.get("agentName")) or "sub-agent",
            parent=calls.get(word(about.get("toolCallId")) or key) or name,
            time_quality="none",
            status=thread.status,
            error=thread.error,
            place=spans[0].place,
            extra=known(signals=thread.signals),
        )
        yield from spans


def _labels(about: dict[str, Any]) -> dict[str, str]:
    where = obj(about.get("context"))
    found = {
        "cwd": word(where.get("cwd")),
        "version": word(about.get("copilotVersion")),
        "git_branch": word(where.get("branch")),
        "repository": word(where.get("repository")),
    }
    return {name: value for name, value in found.items() if value is not None}


class _SpanBuilder:
    """Tells the events of one agent. `_parts` are the messages of the answer being written: one
    response may be split into several."""

    def __init__(self, parent: str, usages: dict[str, dict[str, Any]], tally: Tally) -> None:
        self.status: Status = "unset"
        self.error: str | None = None
        self.title: str | None = None
        self.asked: str | None = None
        self.signals: list[Json] = []
        self._parent, self._usages, self._tally = parent, usages, tally
        self._thread = Thread(
            parent=parent, request=Request(), fidelity=without_tools(None), tally=tally
        )
        self._parts: list[_Event] = []
        self._heard_ns: int | None = None
        self._before: dict[str | None, Context | None] = {}
        self._asked_for: set[str] = set()

    def finish(self) -> tuple[AnySpan, ...]:
        self._close()
        for call in self._thread.open_calls():
            self._tally.problem(f"line {call.place.line}", f"{call.call_id!r} has no result")
        return self._thread.spans()

    def build(self, event: _Event) -> None:
        kind, data = event.kind, event.data
        if kind == "assistant.message":
            self._add_part(event)
        elif kind == "user.message":
            self._add_user(event)
        elif kind == "system.message" and data.get("role") == "system":
            self._set_system(word(data.get("content")))
        elif kind == "system.message":
            self._add(event, "developer", word(data.get("content")))
        elif kind == "tool.execution_complete":
            self._add_result(event)
        elif kind == "assistant.turn_start":
            self._close()
            self._heard_ns = event.at_ns or self._heard_ns
        elif kind == "session.compaction_complete" and data.get("success") is True:
            self._compact(event)
        elif kind == "session.truncation":
            self._close()
            self._thread.weaken(TRUNCATED)
        elif kind == "session.snapshot_rewind":
            self._close()
            first = word(data.get("upToEventId"))
            if first in self._before:
                self._thread.context = self._before[first]
            self._signal("rewind", event)
        elif kind == "session.title_changed":
            self.title = word(data.get("title"))
        elif kind in ("session.error", "abort", "session.shutdown", "subagent.failed"):
            self._end(event)

    def _end(self, event: _Event) -> None:
        self._close()
        why = word(event.data.get("message")) or word(event.data.get("error"))
        if event.kind == "abort":
            self._signal("interrupt", event)
        elif event.kind == "session.shutdown":
            why = word(event.data.get("errorReason"))
            routine = event.data.get("shutdownType") == "routine"
            self.status, self.error = ("ok", None) if routine else ("error", why or "error")
        else:
            self._signal("failed_call", event)
            self.status, self.error = "error", why or "error"

    def _signal(self, kind: str, event: _Event) -> None:
        self.signals.append(known(kind=kind, message=event.place.message, line=event.place.line))

    # --- what the model was told

    def _set_system(self, words: str | None) -> None:
        if words is None:
            return
        system = Message(dialect="openai", body={"role": "system", "content": words})
        self._thread.request = structs.replace(self._thread.request, system=system)
        reasons = self._thread.fidelity.reasons
        self._thread.fidelity = without_tools(system)
        for reason in reasons:
            if reason in (NO_HISTORY, TRUNCATED):
                self._thread.weaken(reason)

    def _add_user(self, event: _Event) -> None:
        self._close()
        shown = word(event.data.get("content"))
        self._before[event.place.span] = self._thread.context
        self._add(event, "user", word(event.data.get("transformedContent")) or shown)
        self.asked = self.asked or shown

    def _add(self, event: _Event, role: str, words: str | None) -> None:
        self._close()
        message = Message(dialect="openai", body={"role": role, "content": words or ""})
        self._thread.add_message(message, place=event.place)
        self._heard_ns = event.at_ns or self._heard_ns

    def _add_result(self, event: _Event) -> None:
        self._close()
        data, call_id = event.data, word(event.data.get("toolCallId"))
        error = obj(data.get("error"))
        content = word(obj(data.get("result")).get("content")) or word(error.get("message")) or ""
        why = None
        if data.get("success") is False:
            why = word(error.get("message")) or "failed"
        if call_id not in self._asked_for and data.get("isUserRequested") is True:
            return  # a person ran it: no model asked, and what came back is told as a message
        body = {"role": "tool", "tool_call_id": call_id, "content": content}
        self._thread.add_message(
            Message(dialect="openai", body=body),
            place=event.place,
            at_ns=event.at_ns,
            errors={call_id: why} if call_id is not None and why is not None else None,
        )
        self._heard_ns = event.at_ns or self._heard_ns

    def _compact(self, event: _Event) -> None:
        self._close()
        words = word(event.data.get("summaryContent"))
        used = obj(event.data.get("compactionTokensUsed"))
        body: dict[str, Json] = {"role": "assistant", "content": words}
        turn = Turn(
            id=derived_id(self._parent, "compaction", event.place.message),
            name="compaction",
            response=Response(model=word(used.get("model")) or word(event.data.get("model"))),
            usage=_usage(used),
            end_ns=event.at_ns,
            time_quality="none",
            place=event.place,
            fidelity=Fidelity(level=Level.NONE, reasons=(NO_REQUEST,)),
        )
        if words is not None or turn.usage is not None:
            said = Message(dialect="openai", body=body) if words is not None else None
            self._thread.add_model_call(said, turn)
        kept = {"role": "user", "content": words}
        self._thread.reset(*([Message(dialect="openai", body=kept)] if words is not None else []))
        self._thread.weaken(NO_HISTORY)
        self._signal("compaction", event)

    # --- answers

    def _add_part(self, event: _Event) -> None:
        before = self._parts[-1].data if self._parts else {}
        same = word(before.get("apiCallId")) is not None
        if not (same and before.get("apiCallId") == event.data.get("apiCallId")):
            self._close()
        self._parts.append(event)

    def _close(self) -> None:
        """The answer being written has ended."""
        parts, self._parts = self._parts, []
        if not parts:
            return
        last = parts[-1]
        call_id = word(last.data.get("apiCallId"))
        told = self._usages.get(call_id or "", {})
        out = [count(part.data.get("outputTokens")) for part in parts]
        message = _message(parts)
        why = word(told.get("finishReason"))
        turn = Turn(
            id=derived_id(self._parent, "answer", parts[0].place.span, parts[0].place.message),
            response=Response(
                id=call_id, model=word(last.data.get("model")), stop=stop(why), stop_raw=why
            ),
            usage=_usage(told) or total_usage(None, max(filter(None, out), default=None)),
            start_ns=self._heard_ns,
            end_ns=last.at_ns,
            time_quality="none" if last.at_ns is None else "derived",
            place=parts[0].place,
        )
        model = word(told.get("model")) or word(last.data.get("model"))
        self._thread.request = structs.replace(self._thread.request, model=model)
        self._thread.add_model_call(message, turn)
        for call in listed(message.body.get("tool_calls")):
            self._asked_for.add(word(obj(call).get("id")) or "")
        self._tally.counts["answers"] += 1
        self._heard_ns = last.at_ns or self._heard_ns


def _message(parts: list[_Event]) -> Message:
    """The parts of a response as the message that it was."""
    said = [word(part.data.get("content")) for part in parts]
    thought = [word(part.data.get("reasoningText")) for part in parts]
    calls = [
        {"id": word(call.get("toolCallId")), "type": "function", "function": _function(call)}
        for part in parts
        for call in map(obj, listed(part.data.get("toolRequests")))
        if call
    ]
    body: dict[str, Json] = {
        "role": "assistant",
        "content": "".join(filter(None, said)) or None,
        **known(reasoning_content="\n".join(filter(None, thought)), tool_calls=calls),
    }
    return Message(dialect="openai", body=body)


def _function(call: dict[str, Any]) -> dict[str, Json]:
    given = call.get("arguments")
    text = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
    return {"name": word(call.get("name")) or "", "arguments": text}


def _usage(told: dict[str, Any]) -> Usage | None:
    """The input counts the cache in."""
    return total_usage(
        count(told.get("inputTokens")),
        count(told.get("outputTokens")),
        reasoning=count(told.get("reasoningTokens")),
        read=count(told.get("cacheReadTokens")),
        write=count(told.get("cacheWriteTokens")),
    )
