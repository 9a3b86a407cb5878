"""`arc/1`, our own format: JSON Lines, one trace after another, content written once.

A line is one of: `trace` (opens a trace, carries the version), `message`, `context` and `tools`
(numbered content that later lines refer to), a span by its kind, `score`, `end` (closes it). The
numbers hold within one trace. Unlike foreign formats it forbids unknown fields: what we cannot
read we must not half-read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from sys import intern
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from replay import digests
from replay.depth import may_be_deep
from replay.errors import BadTrace
from replay.formats.common import MOST_NS, MOST_TOKENS
from replay.formats.source import Head, Source, Tally, decode
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Context,
    Cost,
    Dialect,
    Effect,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    ModelCall,
    Observation,
    OtherSpan,
    Place,
    Request,
    Response,
    Retrieval,
    SourceScore,
    Status,
    Stop,
    TimeQuality,
    Tool,
    ToolCall,
    Usage,
    extend,
)

NAME = "arc"
TITLE = "arc/1, arc's own format"
FILES = ".jsonl"
FIDELITY = (Level.EXACT, Level.REBUILT, Level.SUPPLIED, Level.PARTIAL, Level.NONE)
LACKS = "whatever its source did not record"
VERIFIED = "real files"
VERSION = "arc/1"


class _Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    pass


class TraceLine(_Line, frozen=True, kw_only=True, tag="trace"):
    format: str
    header: Header


class MessageLine(_Line, frozen=True, kw_only=True, tag="message"):
    id: int
    dialect: Dialect
    body: dict[str, Json]


class ContextLine(_Line, frozen=True, kw_only=True, tag="context"):
    id: int
    message: int
    parent: int | None = None


class ToolsLine(_Line, frozen=True, kw_only=True, tag="tools"):
    id: int
    tools: tuple[Tool, ...]


class _SpanLine(_Line, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    parent: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    time_quality: TimeQuality = "exact"
    status: Status = "unset"
    error: str | None = None
    place: Place = Place()
    extra: dict[str, Json] = field(default_factory=dict)


class AgentLine(_SpanLine, frozen=True, kw_only=True, tag="agent"):
    pass


class RetrieverLine(_SpanLine, frozen=True, kw_only=True, tag="retriever"):
    query: Json | None = None
    documents: Json | None = None


class OtherLine(_SpanLine, frozen=True, kw_only=True, tag="other"):
    operation: str = ""


class ModelLine(_SpanLine, frozen=True, kw_only=True, tag="model"):
    fidelity: Level
    reasons: tuple[str, ...] = ()
    model: str | None = None
    system: int | None = None
    tools: int | None = None
    params: dict[str, Json] = field(default_factory=dict)
    context: int | None = None
    response: int | None = None
    response_id: str | None = None
    response_model: str | None = None
    stop: Stop | None = None
    stop_raw: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    agent: str | None = None


class ToolLine(_SpanLine, frozen=True, kw_only=True, tag="tool"):
    call_id: str | None = None
    asked_by: str | None = None
    arguments: Json | None = None
    arguments_raw: str | None = None
    observation: int | None = None
    block: int | None = None
    effect: Effect = "unknown"


class ScoreLine(_Line, frozen=True, kw_only=True, tag="score"):
    score: SourceScore


class EndLine(_Line, frozen=True, kw_only=True, tag="end"):
    pass


AnyLine = (
    TraceLine
    | MessageLine
    | ContextLine
    | ToolsLine
    | AgentLine
    | RetrieverLine
    | OtherLine
    | ModelLine
    | ToolLine
    | ScoreLine
    | EndLine
)

_SUSPECT = re.compile(rb'\d{13}|_tokens"\s*:\s*-')
"""No other number is beyond measure."""

_COMMON = tuple(each.name for each in structs.fields(_SpanLine))


def sniff(head: Head) -> bool:
    return head.starts(b"{") and head.has(rb'"kind":\s*"trace"', rb'"format":\s*"arc/')


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The traces of an `arc/1` file, one batch each."""
    decoder = msgspec.json.Decoder(AnyLine)
    pool: _Pool | None = None
    for number, line in source.lines():
        tally.counts["lines"] += 1
        if may_be_deep(line):
            decode(line, source.display, f"line {number}")
        try:
            value = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadTrace(source.display, f"line {number}", f"is not arc/1: {error}") from error
        if _SUSPECT.search(line) and _beyond(value):
            raise BadTrace(source.display, f"line {number}", "contains a number out of range")
        if isinstance(value, TraceLine):
            _check_version(value, source, number)
            pool = _Pool(value.header)
        elif pool is None:
            raise BadTrace(source.display, f"line {number}", "precedes the first trace")
        elif isinstance(value, EndLine):
            tally.counts["traces"] += 1
            tally.counts["spans"] += len(pool.spans)
            yield pool.batch()
            pool = None
        else:
            try:
                pool.take(value)
            except KeyError as error:
                raise BadTrace(
                    source.display,
                    f"line {number}",
                    f"refers to {error}, which does not occur before it",
                ) from error
    if pool is not None:
        raise BadTrace(source.display, "end", "the last trace is not closed by an `end` line")


def _beyond(value: Struct) -> bool:
    """Is there a number in the fields that cannot be stored or summed, or a count below zero?"""
    for name, each in structs.asdict(value).items():
        if isinstance(each, Struct):
            if _beyond(each):
                return True
        elif isinstance(each, int):
            most = MOST_NS if "_ns" in name else MOST_TOKENS
            if not (0 if name.endswith("_tokens") else -most) <= each <= most:
                return True
    return False


def _check_version(line: TraceLine, source: Source, number: int) -> None:
    if line.format != VERSION:
        raise BadTrace(
            source.display, f"line {number}", f"is {line.format}, this arc reads {VERSION}",
            "Try: a newer arc",
        )  # fmt: skip


class _Pool:
    """The content of one trace while it is read."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.spans: list[AnySpan] = []
        self.scores: list[SourceScore] = []
        self._messages: dict[int, Message] = {}
        self._contexts: dict[int, Context] = {}
        self._tools: dict[int, tuple[Tool, ...]] = {}

    def batch(self) -> Batch:
        return Batch(
            header=self.header, spans=tuple(self.spans), scores=tuple(self.scores), last=True
        )

    def take(self, line: AnyLine) -> None:
        match line:
            case MessageLine():
                self._messages[line.id] = Message(dialect=line.dialect, body=line.body)
            case ContextLine():
                parent = None if line.parent is None else self._contexts[line.parent]
                node = extend(parent, (self._messages[line.message],))
                assert node is not None
                self._contexts[line.id] = node
            case ToolsLine():
                self._tools[line.id] = line.tools
            case ScoreLine():
                self.scores.append(line.score)
            case AgentLine():
                self.spans.append(AgentSpan(**_common(line)))
            case RetrieverLine():
                self.spans.append(
                    Retrieval(**_common(line), query=line.query, documents=line.documents)
                )
            case OtherLine():
                self.spans.append(OtherSpan(**_common(line), operation=line.operation))
            case ModelLine():
                self.spans.append(self._model(line))
            case ToolLine():
                self.spans.append(self._tool(line))
            case TraceLine() | EndLine():
                raise AssertionError("handled by the reader")

    def _model(self, line: ModelLine) -> ModelCall:
        request = Request(
            model=line.model,
            system=None if line.system is None else self._messages[line.system],
            tools=None if line.tools is None else self._tools[line.tools],
            params=line.params,
            context=None if line.context is None else self._contexts[line.context],
        )
        response = Response(
            message=None if line.response is None else self._messages[line.response],
            id=line.response_id,
            model=line.response_model,
            stop=line.stop,
            stop_raw=line.stop_raw,
        )
        return ModelCall(
            **_common(line),
            request=request,
            response=response,
            usage=line.usage,
            cost=line.cost,
            fidelity=Fidelity(level=line.fidelity, reasons=line.reasons),
            agent=line.agent,
        )

    def _tool(self, line: ToolLine) -> ToolCall:
        seen = None if line.observation is None else self._messages[line.observation]
        return ToolCall(
            **_common(line),
            call_id=line.call_id,
            asked_by=line.asked_by,
            arguments=line.arguments,
            arguments_raw=line.arguments_raw,
            observation=None if seen is None else Observation(message=seen, block=line.block),
            effect=line.effect,
        )


def _common(line: _SpanLine | AnySpan) -> dict[str, Any]:
    # `omit_defaults` compares by identity: texts read from elsewhere must be the interned ones.
    values = {name: getattr(line, name) for name in _COMMON}
    return {**values, "status": intern(line.status), "time_quality": intern(line.time_quality)}


def _effect(effect: Effect) -> Effect:
    return "read" if effect == "read" else "write" if effect == "write" else "unknown"


def write(batches: Iterable[Batch]) -> Iterator[bytes]:
    """The lines of an `arc/1` file. Each batch must hold a whole trace."""
    for batch in batches:
        yield from _Writer(batch).lines()


class _Writer:
    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._lines: list[AnyLine] = []
        self._known: dict[str, int] = {}
        self._nodes: dict[int, int] = {}

    def lines(self) -> Iterator[bytes]:
        self._lines.append(TraceLine(format=VERSION, header=self._batch.header))
        for span in self._batch.spans:
            self._lines.append(self._span(span))
        self._lines.extend(ScoreLine(score=score) for score in self._batch.scores)
        self._lines.append(EndLine())
        encode = msgspec.json.Encoder().encode
        return (encode(line) + b"\n" for line in self._lines)

    def _span(self, span: AnySpan) -> AnyLine:
        common = _common(span)
        match span:
            case AgentSpan():
                return AgentLine(**common)
            case Retrieval():
                return RetrieverLine(**common, query=span.query, documents=span.documents)
            case OtherSpan():
                return OtherLine(**common, operation=span.operation)
            case ModelCall():
                return ModelLine(
                    **common,
                    fidelity=span.fidelity.level,
                    reasons=span.fidelity.reasons,
                    model=span.request.model,
                    system=self._message(span.request.system),
                    tools=self._toolset(span.request.tools),
                    params=span.request.params,
                    context=self._context(span.request.context),
                    response=self._message(span.response.message),
                    response_id=span.response.id,
                    response_model=span.response.model,
                    stop=span.response.stop,
                    stop_raw=span.response.stop_raw,
                    usage=span.usage,
                    cost=span.cost,
                    agent=span.agent,
                )
            case ToolCall():
                seen = span.observation
                return ToolLine(
                    **common,
                    call_id=span.call_id,
                    asked_by=span.asked_by,
                    arguments=span.arguments,
                    arguments_raw=span.arguments_raw,
                    observation=self._message(seen.message if seen else None),
                    block=seen.block if seen else None,
                    effect=_effect(span.effect),
                )

    def _number(self, digest: str) -> tuple[int, bool]:
        fresh = digest not in self._known
        return self._known.setdefault(digest, len(self._known)), fresh

    def _message(self, message: Message | None) -> int | None:
        if message is None:
            return None
        number, fresh = self._number(digests.message_digest(message))
        if fresh:
            self._lines.append(MessageLine(id=number, dialect=message.dialect, body=message.body))
        return number

    def _toolset(self, tools: tuple[Tool, ...] | None) -> int | None:
        if tools is None:
            return None
        number, fresh = self._number(digests.toolset_digest(tools))
        if fresh:
            self._lines.append(ToolsLine(id=number, tools=tools))
        return number

    def _context(self, context: Context | None) -> int | None:
        if context is None:
            return None
        fresh: list[Context] = []
        node: Context | None = context
        while node is not None and id(node) not in self._nodes:
            fresh.append(node)
            node = node.parent
        parent = None if node is None else self._nodes[id(node)]
        for each in reversed(fresh):
            message = self._message(each.message)
            assert message is not None
            known, is_new = self._number(f"{parent} {message}")
            if is_new:
                self._lines.append(ContextLine(id=known, message=message, parent=parent))
            self._nodes[id(each)] = parent = known
        return parent
