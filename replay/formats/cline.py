"""Tasks of Cline, and of Roo Code and other forks of it.

The extensions keep a task in a folder, `tasks/<id>`: `api_conversation_history.json` has the
messages as Anthropic's API takes them, `ui_messages.json` beside it when each request was sent and
what it took. Which request an answer is of is known by their number, or by their times. Until the
end of 2025 tools were called in the text of an answer (`<read_file><path>…`), one in each, and what
they returned stands in the next message of the user.

Cline's own command line (since release 3) keeps `sessions/<id>/<id>.messages.json`: messages,
tokens of each answer and the system prompt in one file, and where the session began in another.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.common import (
    count,
    derived_id,
    known,
    listed,
    ms_ns,
    obj,
    recorded,
    total_usage,
    usd,
    word,
)
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.source import Head, Source, Tally
from replay.messages import text
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Header,
    Json,
    Level,
    Message,
    ModelCall,
    Observation,
    Place,
    Request,
    Response,
    ToolCall,
    Usage,
)

NAME = "cline"
TITLE = "Cline and Roo Code tasks, Cline CLI sessions"
FILES = "api_conversation_history.json with ui_messages.json, .messages.json in ~/.cline"
FIDELITY = (Level.PARTIAL,)
LACKS = "the tools; in a task of an extension the system prompt, in old ones the model"
VERIFIED = "real files of Cline CLI; for the extensions, their source code"

HISTORY, SHOWN = "api_conversation_history.json", "ui_messages.json"
CONDENSED = "messages kept through a summary not known"
REMOVED = "messages left out of later requests not known"

_SESSION = (
    rb'"updated_at"\s*:', rb'"agent"\s*:', rb'"sessionId"\s*:', rb'"messages"\s*:\s*\[',
)  # fmt: skip
_TASK = (rb'\A\s*\[\s*\{[^\[]*"content"\s*:\s*\[', rb'"role"\s*:\s*"(user|assistant)"')
_MARKS = rb"<environment_details>|\"<(task|user_message|feedback)>"

_TOOLS = (
    "access_mcp_resource|apply_diff|ask_followup_question|attempt_completion|browser_action"
    "|codebase_search|condense|execute_command|fetch_instructions|generate_image|insert_content"
    "|list_code_definition_names|list_files|load_mcp_documentation|new_rule|new_task"
    "|plan_mode_respond|read_file|replace_in_file|report_bug|run_slash_command|search_and_replace"
    "|search_files|switch_mode|update_todo_list|use_mcp_tool|web_fetch|write_to_file"
)
_CALL = re.compile(rf"<({_TOOLS})>(.*?)(?:</\1>|\Z)", re.S)
_PARAM = re.compile(r"<(\w+)>(.*?)</\1>", re.S)
_RETURNED = re.compile(r"\[(\w+)[^\n]*\] Result:\s*")
_FAILED = re.compile(r"The tool execution failed|The user denied|<error>|Error\b")
_WRAPPED = re.compile(r"\s*<(task|user_input|user_message|feedback)\b[^>]*>\s*(.*?)\s*</\1>", re.S)


class _Ask(Struct, frozen=True, kw_only=True, eq=False):
    """What is shown of one request: when it was sent, what it took, of which model."""

    at_ns: int | None
    told: dict[str, Any]
    model: str | None


def sniff(head: Head) -> bool:
    """A task is a bare chat but for the words that the extension puts around what the user says."""
    if head.starts(b"{"):
        return head.has(*_SESSION)
    return head.starts(b"[") and head.has(*_TASK, _MARKS)


def part_of(path: Path) -> Path | None:
    """The messages of the task whose requests this file shows."""
    main = path.with_name(HISTORY)
    return main if path.name == SHOWN and main.is_file() else None


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where no message is the model's."""
    document = source.document()
    session = obj(document)
    messages = listed(session.get("messages")) if session else listed(document)
    if not any(obj(each).get("role") == "assistant" for each in messages):
        raise BadTrace(source.display, "", "contains no message of a model")
    beside = _read_beside(source, session, tally)
    about = obj(beside)
    name = word(session.get("sessionId")) or _task_id(source) or derived_id(NAME, messages)
    builder = _SpanBuilder(name, session, [*_asks(listed(beside))], tally)
    for index, each in enumerate(messages):
        if not isinstance(each, dict):
            tally.problem(f"message {index}", "is not an object")
            continue
        builder.build(index, each)
    spans = builder.finish()
    times = [at for span in spans for at in (span.start_ns, span.end_ns) if at is not None]
    failed = about.get("status") == "failed"
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality="derived" if times else "none",
        status="error" if failed else "ok" if about.get("status") == "completed" else "unset",
        place=Place(span=name),
    )
    header = Header(
        format=NAME,
        source_id=name,
        path=source.display,
        title=title_line(word(obj(about.get("metadata")).get("title")) or builder.asked),
        agent=NAME,
        labels=_labels(session, about, builder.where),
        start_ns=root.start_ns,
        end_ns=root.end_ns,
    )
    tally.counts["sessions"] += 1
    yield Batch(header=header, spans=(root, *spans), last=True)


def _task_id(source: Source) -> str | None:
    """The folder of a task is named for the millisecond it began in."""
    named = source.path.parent.name
    return named if source.path.name == HISTORY and source.display != "-" else None


def _read_beside(source: Source, session: dict[str, Any], tally: Tally) -> Json:
    """What the file beside this one says of it, None where there is none that can be read."""
    if source.display == "-":
        return None
    name = SHOWN
    if session:
        name = source.path.name.replace(".messages.json", ".json")
    path = source.path.with_name(name)
    if path == source.path or not path.is_file():
        return None
    try:
        return Source(path).document()
    except BadTrace as error:
        tally.problem(path.name, error.why)
        return None


def _labels(session: dict[str, Any], about: dict[str, Any], where: str | None) -> dict[str, str]:
    found = {
        "cwd": word(about.get("cwd")) or where,
        "version": word(obj(session.get("origin")).get("version")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _asks(shown: list[Json]) -> Iterator[_Ask]:
    """The requests that the extension shows, in their order."""
    for each in map(obj, shown):
        if each.get("say") != "api_req_started":
            continue
        try:
            told = obj(from_text(word(each.get("text")) or "{}"))
        except msgspec.DecodeError:
            told = {}
        model = word(obj(each.get("modelInfo")).get("modelId"))
        yield _Ask(at_ns=ms_ns(each.get("ts")), told=told, model=model)


class _SpanBuilder:
    """Tells a conversation message by message. `_called` is the call that the last answer made in
    its text, which the next message answers."""

    def __init__(
        self, parent: str, session: dict[str, Any], asks: list[_Ask], tally: Tally
    ) -> None:
        self.asked: str | None = None
        self.where: str | None = None
        words = word(session.get("system_prompt"))
        system = {"role": "system", "content": words}
        known_system = Message(dialect="anthropic", body=system) if words else None
        self._parent, self._tally, self._asks = parent, tally, asks
        self._thread = Thread(
            parent=parent,
            request=Request(system=known_system),
            fidelity=without_tools(known_system),
            tally=tally,
        )
        self._heard_ns: int | None = None
        self._called: ToolCall | None = None
        self._answers: list[tuple[str, int | None]] = []

    def build(self, index: int, body: dict[str, Any]) -> None:
        self._tally.counts["messages"] += 1
        role, place, at_ns = word(body.get("role")), Place(message=index), ms_ns(body.get("ts"))
        if role not in ("user", "assistant"):
            self._tally.unknown[role or word(body.get("type")) or "message without a role"] += 1
            return
        message, errors = _message(role, body)
        if role == "assistant":
            self._add_answer(message, body, place, at_ns)
            return
        if body.get("isSummary") is True:
            self._thread.reset(message)
            self._thread.weaken(CONDENSED)
            return
        if body.get("isTruncationMarker") is True:
            self._thread.weaken(REMOVED)
        self._thread.add_message(message, place=place, at_ns=at_ns, errors=errors)
        self._add_result(message, at_ns)
        self._heard_ns = at_ns or self._heard_ns
        shown = text(message)
        said = _WRAPPED.match(shown)
        self.asked = self.asked or (said[2] if said is not None else shown)
        found = re.search(r"Current W\w+ing Directory \(([^)]+)\)", shown)
        self.where = self.where or (found[1] if found is not None else None)

    def finish(self) -> tuple[AnySpan, ...]:
        if self._called is not None:
            self._thread.add_spans(self._called)
        for call in self._thread.open_calls():
            where = f"message {call.place.message}"
            self._tally.problem(where, f"{call.call_id!r} has no result")
        told = self._match_requests()
        return tuple(_with(span, told.get(span.id)) for span in self._thread.spans())

    # --- answers

    def _add_answer(
        self, message: Message, body: dict[str, Any], place: Place, at_ns: int | None
    ) -> None:
        name = derived_id(self._parent, "answer", place.message)
        metrics, model = obj(body.get("metrics")), obj(body.get("modelInfo"))
        asked = word(model.get("id")) or word(model.get("modelId"))
        self._thread.request = structs.replace(self._thread.request, model=asked)
        turn = Turn(
            id=name,
            response=Response(id=word(body.get("id")), model=asked),
            usage=_usage(metrics),
            cost=recorded(usd(metrics.get("cost")) or None),
            start_ns=self._heard_ns,
            end_ns=at_ns,
            time_quality="none" if at_ns is None else "derived",
            place=place,
        )
        if self._called is not None:  # nothing came back before the model went on
            self._thread.add_spans(self._called)
        self._thread.add_model_call(message, turn)
        self._answers.append((name, at_ns))
        self._called = _in_text(message, turn, self._parent)
        self._heard_ns = at_ns or self._heard_ns

    def _add_result(self, message: Message, at_ns: int | None) -> None:
        """The result of a call that was made in a text."""
        call, self._called = self._called, None
        if call is None:
            return
        shown = text(message)
        head = _RETURNED.match(shown)
        if head is None or head[1] != call.name:
            self._thread.add_spans(call)
            return
        given = shown[head.end() :].partition("<environment_details>")[0].strip()
        body = {"role": "tool", "name": call.name, "content": given}
        failed = _FAILED.match(given) is not None
        self._thread.add_spans(
            structs.replace(
                call,
                observation=Observation(message=Message(dialect="openai", body=body)),
                end_ns=at_ns,
                status="error" if failed else "ok",
                error=given if failed else None,
            )
        )

    # --- requests

    def _match_requests(self) -> dict[str, _Ask]:
        """The request of each answer, by the answer's span."""
        asks = self._asks
        if len(asks) != len(self._answers):  # some were cancelled, or failed before they cost
            asks = [ask for ask in asks if count(ask.told.get("tokensOut"))]
        if len(asks) == len(self._answers):
            return {name: ask for (name, _), ask in zip(self._answers, asks, strict=True)}
        starts = [ask.at_ns for ask in asks if ask.at_ns is not None]
        if asks and (len(starts) < len(asks) or starts != sorted(starts)):
            starts = []
        found: dict[str, _Ask] = {}
        for name, at_ns in self._answers:
            place = bisect_right(starts, at_ns) if at_ns is not None else 0
            if place:
                found[name] = asks[place - 1]
        if asks and not found:
            many = f"{len(asks)} requests of {len(self._answers)} answers"
            self._tally.problem(SHOWN, f"{many}: which is of which is not known, tokens left out")
        return found


def _with(span: AnySpan, ask: _Ask | None) -> AnySpan:
    """The span of an answer with what is shown of its request."""
    if ask is None or not isinstance(span, ModelCall):
        return span
    end_ns = span.end_ns
    return structs.replace(
        span,
        request=structs.replace(span.request, model=span.request.model or ask.model),
        response=structs.replace(span.response, model=span.response.model or ask.model),
        usage=span.usage or _shown_usage(ask.told),
        cost=span.cost or recorded(usd(ask.told.get("cost")) or None),
        start_ns=ask.at_ns or span.start_ns,
        time_quality="derived" if ask.at_ns is not None or end_ns is not None else "none",
    )


def _usage(metrics: dict[str, Any]) -> Usage | None:
    """Of Cline CLI: the input counts the cache in."""
    return total_usage(
        count(metrics.get("inputTokens")),
        count(metrics.get("outputTokens")),
        read=count(metrics.get("cacheReadTokens")),
        write=count(metrics.get("cacheWriteTokens")),
    )


def _shown_usage(told: dict[str, Any]) -> Usage | None:
    """Of the extensions. Cline's input leaves the cache out; Roo Code's counts it in since it says
    whose protocol was spoken (before that, as Cline)."""
    given, read = count(told.get("tokensIn")), count(told.get("cacheReads"))
    write = count(told.get("cacheWrites"))
    if given is not None and "apiProtocol" not in told:
        given += (read or 0) + (write or 0)
    return total_usage(given, count(told.get("tokensOut")), read=read, write=write)


# --- messages


def _message(role: str, body: dict[str, Any]) -> tuple[Message, dict[str, str]]:
    """The message as the API took it, and by call why it failed where only the blocks say so."""
    content = body.get("content")
    if not isinstance(content, list):
        plain = content if isinstance(content, str) else ""
        return Message(dialect="anthropic", body={"role": role, "content": plain}), {}
    errors: dict[str, str] = {}
    blocks: list[Json] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            blocks.append(_result(block, errors))
        elif block is not None:
            blocks.append(block)
    return Message(dialect="anthropic", body={"role": role, "content": blocks}), errors


def _result(block: dict[str, Any], errors: dict[str, str]) -> dict[str, Any]:
    """A result; what Cline CLI's tools return, a list of what was asked and found, as its text."""
    parts = [obj(each) for each in listed(block.get("content"))]
    if not parts or any("type" in part for part in parts):
        return block
    failed = [part for part in parts if part.get("success") is False]
    call_id = word(block.get("tool_use_id"))
    if failed and call_id is not None:
        errors[call_id] = word(failed[0].get("error")) or "failed"
    return {**block, "content": msgspec.json.encode(block["content"]).decode()}


def _in_text(message: Message, turn: Turn, parent: str) -> ToolCall | None:
    """The call that an answer makes in its text; None where it makes none, or calls as the API
    does."""
    if any(obj(b).get("type") == "tool_use" for b in listed(message.body.get("content"))):
        return None
    found = _CALL.search(text(message))
    if found is None:
        return None
    given = {name: value.strip("\n") for name, value in _PARAM.findall(found[2])}
    return ToolCall(
        id=derived_id(turn.id, "call", found[1]),
        name=found[1],
        parent=parent,
        start_ns=turn.end_ns,
        time_quality=turn.time_quality,
        place=turn.place,
        asked_by=turn.id,
        arguments=known(**given),
        extra={"called": "in text"},
    )
