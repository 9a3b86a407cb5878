"""Conversations of Amazon Q Developer CLI and of Kiro CLI, which it became.

Both keep them in `data.sqlite3` (`conversations`, later `conversations_v2`), one by the folder it
was had in, as JSON: pairs of what the user and the model said. `/save` writes the same JSON. The
tools are recorded, the system prompt is not. Messages that no longer fit are taken out of the
front. Since release 2 Kiro CLI keeps `~/.kiro/sessions/cli/<session>.jsonl`: prompts, answers and
results of tools, one a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.common import derived_id, listed, ms_ns, ns, obj, seconds_ns, word
from replay.formats.database import Database
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.source import Head, Source, Tally, decoded, decoded_text
from replay.trace import (
    NO_SYSTEM,
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
    Response,
    Tool,
)

NAME = "amazon-q"
TITLE = "Amazon Q Developer CLI and Kiro CLI conversations"
FILES = "data.sqlite3, .json of /save, .jsonl in ~/.kiro/sessions/cli"
FIDELITY = (Level.PARTIAL,)
LACKS = "the system prompt and all tokens; in .jsonl also the tools"
VERIFIED = "its source code; for .jsonl, readers of others"

TABLES = frozenset({"conversations_v2"})
OLD_TABLES = frozenset({"conversations", "state"})
"""Of its database, which `sqlite` reads; either set is enough."""

SUMMARY = "messages left out by a compaction not known"
REMOVED = "earlier messages taken out of the conversation"

_DOCUMENT = (rb'"conversation_id"\s*:', rb'"history"\s*:\s*\[')
_LINES = {"Prompt", "AssistantMessage", "ToolResults", "Compaction"}


def sniff(head: Head) -> bool:
    """A conversation as one document, or Kiro's lines."""
    found = (obj(decoded(line)) for line in head.lines()[:20])
    if any(_is_line(record) for record in found):
        return True
    return head.starts(b"{") and head.has(*_DOCUMENT) and head.has(rb'"(user|Prompt|content)"\s*:')


def _is_line(record: dict[str, Any]) -> bool:
    return word(record.get("kind")) in _LINES and isinstance(
        obj(record.get("data")).get("content"), list
    )


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where no message is the model's."""
    lines = source.head.lines()
    batch: Batch | None
    if lines and _is_line(obj(decoded(lines[0]))):
        batch = _of_lines(source, tally)
    else:
        batch = _batch(obj(source.document()), None, source.display, tally)
    if batch is None:
        raise BadTrace(source.display, "", "contains no message of a model")
    yield batch


def traces(database: Database, path: str, tally: Tally) -> Iterator[Batch]:
    """The conversations of a database; one that was kept by both tables is told once."""
    seen: set[str] = set()
    for table in ("conversations_v2", "conversations"):
        for row in database.rows(table, ("key", "value"), order=("key",)):
            where = f"conversation of {row.get('key')}"
            value = obj(decoded_text(row.get("value"), path, where, tally))
            name = word(value.get("conversation_id"))
            if name is None or name in seen:
                continue
            seen.add(name)
            batch = _batch(value, word(row.get("key")), path, tally)
            if batch is not None:
                yield batch


def _batch(value: dict[str, Any], folder: str | None, path: str, tally: Tally) -> Batch | None:
    """A conversation as a trace, None where no model spoke."""
    pairs = [_pair(each) for each in listed(value.get("history"))]
    if not any(said for _, said, _ in pairs):
        return None
    name = word(value.get("conversation_id")) or derived_id(NAME, *pairs[:2])
    model = word(obj(value.get("model_info")).get("model_id")) or word(value.get("model"))
    builder = _SpanBuilder(name, model, _tools(value.get("tools")), tally)
    first = next(iter(listed(value.get("valid_history_range"))), 0)
    if isinstance(first, int) and first > 0:
        builder.weaken(REMOVED)
    for index, (told, said, about) in enumerate(pairs):
        builder.pair(index, told, said, about)
    folder = folder or builder.folder
    return _trace(name, builder, path, {"cwd": folder} if folder else {}, tally)


def _trace(
    name: str, builder: _SpanBuilder, path: str, labels: dict[str, str], tally: Tally
) -> Batch:
    spans = builder.finish()
    times = [at for span in spans for at in (span.start_ns, span.end_ns) if at is not None]
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality="derived" if times else "none",
        place=Place(span=name),
    )
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_line(builder.asked),
        agent=NAME,
        labels=labels,
        start_ns=root.start_ns,
        end_ns=root.end_ns,
    )
    tally.counts["sessions"] += 1
    return Batch(header=header, spans=(root, *spans), last=True)


def _pair(entry: Json) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(what the model was told, what it said, what is known of the request); in early releases the
    two are a list."""
    if isinstance(entry, list):
        told, said = [*map(obj, entry[:2]), {}, {}][:2]
        return told, said, {}
    value = obj(entry)
    return obj(value.get("user")), obj(value.get("assistant")), obj(value.get("request_metadata"))


def _tools(declared: Json) -> tuple[Tool, ...] | None:
    """The tools, by whose they are; None where none is recorded."""
    found = [
        Tool(
            name=word(spec.get("name")) or "",
            description=word(spec.get("description")),
            schema=obj(spec.get("input_schema")).get("json", spec.get("input_schema")),
        )
        for each in obj(declared).values()
        for one in listed(each)
        if (spec := obj(obj(one).get("ToolSpecification")))
    ]
    return tuple(found) or None


class _SpanBuilder:
    """Tells a conversation pair by pair, or line by line."""

    def __init__(
        self, parent: str, model: str | None, tools: tuple[Tool, ...] | None, tally: Tally
    ) -> None:
        self.asked: str | None = None
        self.folder: str | None = None
        self._parent, self._tally = parent, tally
        known_tools = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM,))
        self._thread = Thread(
            parent=parent,
            request=Request(model=model, tools=tools),
            fidelity=known_tools if tools is not None else without_tools(None),
            tally=tally,
        )
        self._heard_ns: int | None = None

    def weaken(self, reason: str) -> None:
        self._thread.weaken(reason)

    def finish(self) -> tuple[AnySpan, ...]:
        for call in self._thread.open_calls():
            self._tally.problem(f"message {call.place.message}", f"{call.call_id!r} has no result")
        return self._thread.spans()

    def pair(
        self, index: int, told: dict[str, Any], said: dict[str, Any], about: dict[str, Any]
    ) -> None:
        at_ns = ns(told.get("timestamp"))
        state = obj(obj(told.get("env_context")).get("env_state"))
        self.folder = self.folder or word(state.get("current_working_directory"))
        content = obj(told.get("content"))
        kind = next(iter(content), None)
        inner = obj(content.get(kind)) if kind is not None else {}
        results = [_result(obj(each)) for each in listed(inner.get("tool_use_results"))]
        prompt, beside = word(inner.get("prompt")), word(told.get("additional_context"))
        start_ns = ms_ns(about.get("request_start_timestamp_ms"))
        self.add_input(index * 2, results, [beside, prompt], prompt, at_ns or start_ns)
        kind = next(iter(said), None)
        inner = obj(said.get(kind)) if kind is not None else {}
        if not inner:
            return
        calls = [
            (word(call.get("id")), word(call.get("name")), call.get("args"))
            for call in map(obj, listed(inner.get("tool_uses")))
        ]
        model = word(about.get("model_id"))
        if model is not None:
            self._thread.request = structs.replace(self._thread.request, model=model)
        end_ns = ms_ns(about.get("stream_end_timestamp_ms"))
        self._heard_ns = start_ns or self._heard_ns
        name = word(inner.get("message_id"))
        self.add_answer(index * 2 + 1, word(inner.get("content")), calls, name, end_ns)

    def add_input(
        self,
        index: int,
        results: list[tuple[dict[str, Any], str | None]],
        texts: list[str | None],
        prompt: str | None,
        at_ns: int | None,
    ) -> None:
        blocks: list[Json] = [block for block, _ in results]
        blocks += [{"type": "text", "text": each} for each in texts if each]
        errors = {str(b["tool_use_id"]): why for b, why in results if why is not None}
        if not blocks:
            return
        message = Message(dialect="anthropic", body={"role": "user", "content": blocks})
        place = Place(message=index)
        self._thread.add_message(message, place=place, at_ns=at_ns, errors=errors)
        self._tally.counts["messages"] += 1
        self.asked = self.asked or prompt
        self._heard_ns = at_ns or self._heard_ns

    def add_answer(
        self,
        index: int,
        words: str | None,
        calls: list[tuple[str | None, str | None, Json]],
        name: str | None,
        at_ns: int | None,
    ) -> None:
        blocks: list[Json] = [{"type": "text", "text": words}] if words else []
        blocks += [
            {
                "type": "tool_use",
                "id": call_id,
                "name": tool or "unknown tool",
                "input": given or {},
            }
            for call_id, tool, given in calls
        ]
        message = Message(dialect="anthropic", body={"role": "assistant", "content": blocks})
        turn = Turn(
            id=derived_id(self._parent, "answer", index),
            response=Response(id=name, model=self._thread.request.model),
            start_ns=self._heard_ns,
            end_ns=at_ns,
            time_quality="none" if self._heard_ns is None and at_ns is None else "derived",
            place=Place(message=index),
        )
        self._thread.add_model_call(message, turn)
        self._tally.counts["messages"] += 1
        self._heard_ns = at_ns

    def summarize(self, words: str) -> None:
        """What was said until here was replaced by this."""
        body = {"role": "user", "content": words}
        self._thread.reset(Message(dialect="anthropic", body=body))
        self._thread.weaken(SUMMARY)


def _result(told: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """(the block of a result, why it failed): a text, or JSON as its text."""
    given = told.get("content")
    shown = given if isinstance(given, str) else "\n".join(map(_part_text, listed(given)))
    call_id = word(told.get("tool_use_id")) or word(told.get("toolUseId"))
    failed = (word(told.get("status")) or "").lower() == "error"
    block = {"type": "tool_result", "tool_use_id": call_id, "content": shown}
    return block, (shown or "error") if failed else None


def _part_text(part: Json) -> str:
    """`{"Text": …}` and `{"Json": …}` of the database, `{"kind", "data"}` of the lines."""
    value = obj(part)
    found = value.get("Text", value.get("Json", value.get("data")))
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


def _of_lines(source: Source, tally: Tally) -> Batch | None:
    """A session of Kiro CLI; where it began, and its model, stand in the file beside it."""
    name, about = source.name.partition(".")[0], _read_beside(source)
    state = obj(obj(about.get("session_state")).get("rts_model_state"))
    model = word(obj(state.get("model_info")).get("model_id"))
    builder = _SpanBuilder(name, model, None, tally)
    spoken = False
    for number, record in source.records(tally):
        kind, data = word(record.get("kind")) or "", obj(record.get("data"))
        parts = [obj(each) for each in listed(data.get("content"))]
        at = obj(data.get("meta")).get("timestamp")
        at_ns = seconds_ns(at) if isinstance(at, (int, float)) else ns(at)
        texts = [word(each.get("data")) for each in parts if each.get("kind") == "text"]
        inner = [obj(each.get("data")) for each in parts]
        if kind in ("Prompt", "ToolResults"):
            results = [_result(each) for each in inner if "toolUseId" in each]
            prompt = "\n".join(filter(None, texts)) or None
            builder.add_input(number - 1, results, [*texts], prompt, at_ns)
        elif kind == "AssistantMessage":
            calls = [
                (word(each.get("toolUseId")), word(each.get("name")), each.get("input"))
                for each in inner
                if "toolUseId" in each
            ]
            words = "".join(filter(None, texts)) or None
            builder.add_answer(number - 1, words, calls, word(data.get("message_id")), at_ns)
            spoken = True
        elif kind == "Compaction":
            builder.summarize(word(data.get("summary")) or "\n".join(filter(None, texts)))
        else:
            tally.unknown[kind or "line without a kind"] += 1
    labels = {"cwd": cwd} if (cwd := word(about.get("cwd"))) else {}
    return _trace(name, builder, source.display, labels, tally) if spoken else None


def _read_beside(source: Source) -> dict[str, Any]:
    path = source.path.with_suffix(".json")
    if source.display == "-" or path == source.path or not path.is_file():
        return {}
    try:
        return obj(Source(path).document())
    except BadTrace:
        return {}
