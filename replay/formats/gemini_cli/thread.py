"""The records of a Gemini CLI session told as spans, its contents as messages of OpenAI's chat
shape.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.common import count, derived_id, listed, ns, obj, total_usage, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Head, Source, Tally, decoded
from replay.messages import results as found_results
from replay.messages import text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AnySpan,
    Context,
    Fidelity,
    Json,
    Level,
    Message,
    Place,
    Request,
    Response,
    Usage,
)

_KNOWN = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))
_HARNESS = ("This is the Gemini CLI.", "<session_context>", "<state_snapshot>")
"""How contents begin that the harness writes in the user's name."""


class SpanBuilder:
    """Tells a strand record by record, from what was seen before its first.

    `after` is what had been seen behind each record, by its object.
    """

    def __init__(
        self, parent: str, seen: Context | None, after: dict[int, Context | None], tally: Tally
    ) -> None:
        self.signals: list[dict[str, Json]] = []
        self.unanswered: list[Message] = []
        self.asked: str | None = None
        self._parent, self._after, self._tally = parent, after, tally
        self._thread = Thread(
            parent=parent, request=Request(context=seen), fidelity=_KNOWN, tally=tally
        )
        self._heard_ns: int | None = None

    def build(self, record: Record, name: str) -> None:
        """The next record; `name` is what its span is called."""
        if record.kind == "gemini":
            self._add_model_call(record, name)
        elif record.kind == "user":
            self._add_input(record)
        elif record.kind == HISTORY:
            self._replaced(record)
        elif record.kind == "error":
            self.signals.append(signal("failed_call", record.place))
        self._after[id(record)] = self._thread.context

    def spans(self) -> tuple[AnySpan, ...]:
        for call in self._thread.open_calls():
            where = f"message {call.place.message}"
            self._tally.problem(where, f"{call.call_id or call.name!r} has no result")
        return self._thread.spans()

    def _add_input(self, record: Record) -> None:
        content = record.value.get("content")
        for result in responses(content):
            self._returned(result, record)
        message = user(content)
        self._heard_ns = record.at_ns or self._heard_ns
        if message.body["content"] == "":
            return
        self._thread.add_message(message, place=record.place)
        shown = text(message)
        if not shown.startswith(_HARNESS):
            self.unanswered.append(message)
            self.asked = self.asked or shown

    def _returned(self, result: Message, record: Record) -> None:
        """A result of the history, unless it was told with its call."""
        open_ids = {call.call_id for call in self._thread.open_calls()}
        named = found_results(result)[0].call_id
        if named is None or named in open_ids:
            why = failure({**record.value, "result": record.value.get("content")})
            errors = {named: why} if named is not None and why is not None else None
            self._thread.add_message(result, place=record.place, at_ns=record.at_ns, errors=errors)

    def _add_model_call(self, record: Record, name: str) -> None:
        value = record.value
        model = word(value.get("model"))
        self._thread.request = structs.replace(self._thread.request, model=model)
        end_ns = record.at_ns
        turn = Turn(
            id=name,
            response=Response(model=model),
            usage=usage(value.get("tokens")),
            start_ns=self._heard_ns,
            end_ns=end_ns,
            time_quality="none" if end_ns is None else "derived",
            place=record.place,
        )
        self._thread.add_model_call(gemini(value), turn)
        self.unanswered.clear()
        self._heard_ns = end_ns or self._heard_ns
        for call, result in results(value):
            call_id, why, at_ns = (
                word(call.get("id")),
                failure(call),
                ns(call.get("timestamp")),
            )
            errors = {call_id: why} if call_id is not None and why is not None else None
            self._thread.add_message(result, place=record.place, at_ns=at_ns, errors=errors)
            self._heard_ns = max(at_ns or 0, self._heard_ns or 0) or None

    def _replaced(self, record: Record) -> None:
        """The history was compressed: what follows was asked with the new one."""
        told: list[Message] = []
        for each in map(obj, listed(record.value.get("messages"))):
            if each.get("type") == "gemini":
                message = gemini(each)
                told += [message] if message is not None else []
                told += [result for _, result in results(each)]
            elif each.get("type") == "user":
                told += responses(each.get("content"))
                said = user(each.get("content"))
                told += [said] if said.body["content"] != "" else []
        self._thread.reset(*told)
        self.signals.append(signal("compaction", record.place))


def usage(raw: Json) -> Usage | None:
    """The figures of an answer. `input` holds the cache; thoughts stand beside the output."""
    figures = {name: count(value) for name, value in obj(raw).items()}
    given, tools = figures.get("input"), figures.get("tool")
    out, thoughts = figures.get("output"), figures.get("thoughts")
    return total_usage(
        None if given is None else given + (tools or 0),
        None if out is None else out + (thoughts or 0),
        reasoning=thoughts,
        read=figures.get("cached"),
    )


def signal(kind: str, place: Place) -> dict[str, Json]:
    known = {"message": place.message, "line": place.line}
    return {"kind": kind, **{name: value for name, value in known.items() if value is not None}}


def span_name(root: str, record: Record) -> str:
    """The same for the same message, however often the file is read."""
    return derived_id(root, record.place.span, record.place.message)


HISTORY = "history"
"""The kind of a record that says what the conversation is from here on."""

_KINDS = {"user", "gemini", "info", "error", "warning"}
_ROLES = {"user": "user", "model": "gemini"}


class Record(Struct, kw_only=True, eq=False):
    """A message, or a new history. `after` is the record it follows: going back makes branches.

    `kind` is user, gemini, info, error, warning or HISTORY.
    """

    kind: str
    value: dict[str, Json]
    place: Place
    after: Record | None = None

    @property
    def at_ns(self) -> int | None:
        return ns(self.value.get("timestamp"))


class Session(Struct, frozen=True, kw_only=True, eq=False):
    """What a file holds: what it says of the session, and its records in the order they began.

    `tip` is the last record that was not taken back, `rewinds` where somebody went back, `agent`
    who wrote it.
    """

    about: dict[str, Json]
    records: list[Record]
    tip: Record | None
    rewinds: list[Place]
    agent: str = "gemini-cli"


def session(source: Source, tally: Tally) -> Session:
    """Raises BadTrace where the file contains neither messages nor a history."""
    if is_lines(source.head):
        return _of_lines(source, tally)
    document = source.document()
    about = obj(document)
    if isinstance(about.get("messages"), list):
        return _straight(about, about["messages"], tally)
    contents = checkpoint(document)
    if contents is None:
        raise BadTrace(source.display, "", "contains neither `messages` nor a history")
    messages = [as_message(content) for content in contents]
    return _straight({}, messages, tally)


def checkpoint(document: Json) -> list[Json] | None:
    """The history of a saved chat: the list itself, or beside what else was saved."""
    saved = obj(document)
    found = saved.get("history", saved.get("clientHistory")) if saved else document
    if isinstance(found, list) and all(isinstance(obj(c).get("parts"), list) for c in found):
        return found or None
    return None


def is_lines(head: Head) -> bool:
    """Does the first line stand alone as what begins a session?"""
    lines = head.lines()
    first = obj(decoded(lines[0])) if lines else {}
    return "sessionId" in first and "projectHash" in first and "messages" not in first


def as_message(content: Json) -> dict[str, Json]:
    return {
        "type": _ROLES.get(word(obj(content).get("role")) or "", "user"),
        "content": obj(content).get("parts"),
    }


def _straight(about: dict[str, Any], messages: list[Json], tally: Tally) -> Session:
    records: list[Record] = []
    for index, message in enumerate(messages):
        place = Place(span=word(obj(message).get("id")), message=index)
        record = _record(message, place, f"message {index}", tally)
        if record is not None:
            record.after = records[-1] if records else None
            records.append(record)
    tip = records[-1] if records else None
    return Session(about=about, records=records, tip=tip, rewinds=[])


def _record(message: Json, place: Place, where: str, tally: Tally) -> Record | None:
    if not isinstance(message, dict):
        tally.problem(where, "is not an object")
        return None
    kind = word(message.get("type")) or ""
    tally.counts["messages"] += 1
    tally.counts["tool_calls"] += len(listed(message.get("toolCalls")))
    if kind not in _KINDS:
        tally.unknown[kind or "message without a type"] += 1
        return None
    return Record(kind=kind, value=message, place=place)


def _of_lines(source: Source, tally: Tally) -> Session:
    """The lines in order; what is written of a message later takes the place of what was."""
    reading = _Reading(tally)
    for number, record in source.records(tally):
        reading.read(number, record)
    return reading.session()


class _Reading:
    """Reads the lines of a session.

    `_live` holds the messages of the conversation as it stands by their ids, each with the record
    that brought it there.
    """

    def __init__(self, tally: Tally) -> None:
        self._about: dict[str, Any] = {}
        self._records: list[Record] = []
        self._rewinds: list[Place] = []
        self._live: dict[str, Record] = {}
        self._latest: Record | None = None
        self._tally = tally

    def session(self) -> Session:
        return Session(
            about=self._about, records=self._records, tip=self._latest, rewinds=self._rewinds
        )

    def read(self, number: int, record: dict[str, Any]) -> None:
        place = Place(span=word(record.get("id")), message=number - 1, line=number)
        back, changed = word(record.get("$rewindTo")), record.get("$set")
        if back is not None:
            self._rewind(back, place)
        elif isinstance(changed, dict):
            self._change(changed, place)
        elif place.span is not None and "type" in record:
            self._message(place.span, record, place)
        elif "sessionId" in record:
            self._about |= record
        else:
            self._tally.unknown[next(iter(record), "empty line")] += 1

    def _message(self, name: str, value: dict[str, Any], place: Place) -> None:
        known = self._live.get(name)
        if known is not None and known.kind == HISTORY:
            return
        if known is not None:
            calls = len(listed(value.get("toolCalls"))) - len(listed(known.value.get("toolCalls")))
            self._tally.counts["tool_calls"] += max(calls, 0)
            known.value = value
            return
        record = _record(value, place, f"line {place.line}", self._tally)
        if record is not None:
            self._append(record)
            self._live[name] = record

    def _change(self, changed: dict[str, Any], place: Place) -> None:
        messages = changed.get("messages")
        self._about |= {name: value for name, value in changed.items() if name != "messages"}
        if not isinstance(messages, list):
            return
        names = [word(obj(message).get("id")) or "" for message in messages]
        if names == list(self._live):  # only what old results look like from here on
            return
        history = Record(kind=HISTORY, value={"messages": messages}, place=place)
        self._append(history)
        self._live = {name: self._live.get(name, history) for name in names}

    def _rewind(self, name: str, place: Place) -> None:
        self._rewinds.append(place)
        first = self._live.get(name)
        names = list(self._live)
        gone = names[names.index(name) :] if first is not None else names
        for each in gone:
            del self._live[each]
        self._latest = first.after if first is not None else None

    def _append(self, record: Record) -> None:
        record.after = self._latest
        self._latest = record
        self._records.append(record)


_FAILED = {"error", "cancelled"}


def user(content: Json) -> Message:
    """What a person or the harness said, calls' answers left out."""
    return _message(role="user", content=_simplest(_blocks(content)) or "")


def gemini(value: dict[str, Json]) -> Message | None:
    """An answer: its thoughts, texts and calls; None where nothing of it was recorded."""
    content = value.get("content")
    blocks = _simplest(_blocks(content))
    thoughts = [*map(_thought, listed(value.get("thoughts"))), *_thought_parts(content)]
    calls = [_call(call) for call in tool_calls(value)]
    body: dict[str, Json] = {"role": "assistant", "content": blocks}
    if shown := "\n".join(filter(None, thoughts)):
        body["reasoning_content"] = shown
    if calls:
        body["tool_calls"] = calls
    return (
        Message(dialect="openai", body=body)
        if body.keys() != {"role", "content"} or (blocks is not None)
        else None
    )


def tool_calls(value: dict[str, Json]) -> list[dict[str, Any]]:
    """The calls of an answer: those recorded with what came back, and bare ones of a history."""
    recorded = [obj(call) for call in listed(value.get("toolCalls")) if isinstance(call, dict)]
    known = {name for call in recorded if (name := word(call.get("id"))) is not None}
    bare = [obj(part.get("functionCall")) for part in _parts(value.get("content"))]
    return [*recorded, *(call for call in bare if call and word(call.get("id")) not in known)]


def results(value: dict[str, Json]) -> list[tuple[dict[str, Any], Message]]:
    """The calls of an answer that came back, each with what the model was given."""
    return [
        (call, _result(word(call.get("id")), word(call.get("name")), call["result"]))
        for call in tool_calls(value)
        if call.get("result") is not None
    ]


def responses(content: Json) -> list[Message]:
    """Results that stand in a history as contents of the user's."""
    found = [obj(part.get("functionResponse")) for part in _parts(content)]
    return [
        _result(word(each.get("id")), word(each.get("name")), [{"functionResponse": each}])
        for each in found
        if each
    ]


def failure(call: dict[str, Any]) -> str | None:
    """Why a recorded call failed, None where it did not."""
    status = word(call.get("status"))
    if status not in _FAILED:
        return None
    told = [
        obj(obj(part.get("functionResponse")).get("response"))
        for part in _parts(call.get("result"))
    ]
    error = next((word(each["error"]) for each in told if "error" in each), None)
    return error or word(call.get("resultDisplay")) or status


def _call(call: dict[str, Any]) -> Json:
    given = call.get("args")
    arguments = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
    function = {"name": word(call.get("name")) or "", "arguments": arguments}
    return {"id": word(call.get("id")), "type": "function", "function": function}


def _result(call_id: str | None, name: str | None, result: Json) -> Message:
    blocks: list[Json] = []
    for part in _parts(result):
        response = obj(part.get("functionResponse"))
        blocks += [_response(response)] if response else _blocks([part])
    return _message(
        role="tool",
        tool_call_id=call_id,
        content=_simplest(blocks) or "",
        **({"name": name} if name else {}),
    )


def _response(response: dict[str, Any]) -> Json:
    given = response.get("response")
    output = obj(given).get("output")
    if isinstance(output, str) and obj(given).keys() == {"output"}:
        return {"type": "text", "text": output}
    text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return {"type": "text", "text": text}


def _parts(content: Json) -> list[dict[str, Any]]:
    """A content is a text, a part, or a list of both."""
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [
        {"text": each} if isinstance(each, str) else each
        for each in (content if isinstance(content, list) else [content])
        if isinstance(each, (dict, str)) and each
    ]


def _blocks(content: Json) -> list[Json]:
    """Texts and media; calls, their answers and thoughts stand elsewhere."""
    found: list[Json] = []
    for part in _parts(content):
        data = obj(part.get("inlineData"))
        if part.get("thought") is True or "functionCall" in part or "functionResponse" in part:
            continue
        if isinstance(part.get("text"), str):
            found.append({"type": "text", "text": part["text"]})
        elif data:
            url = f"data:{word(data.get('mimeType'))};base64,{word(data.get('data'))}"
            found.append({"type": "image_url", "image_url": {"url": url}})
        else:
            found.append({**part, "type": "part"})
    return found


def _thought(thought: Json) -> str:
    told = (word(obj(thought).get("subject")), word(obj(thought).get("description")))
    return "\n".join(filter(None, told))


def _thought_parts(content: Json) -> list[str]:
    return [word(part.get("text")) or "" for part in _parts(content) if part.get("thought") is True]


def _simplest(blocks: list[Json]) -> Json:
    """None for nothing; texts alone as one text, since streams cut them anywhere."""
    if all(block["type"] == "text" for block in blocks):
        return "".join(block["text"] for block in blocks) or None
    return blocks


def _message(**body: Json) -> Message:
    return Message(dialect="openai", body=body)
