"""The one batch of a trace, from all its spans, whichever export they came in.

The attributes of a span are what OpenTelemetry's are, in OpenInference's words and others', so its
spans are put together by `replay.formats.genai`.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.formats.chat import user_label
from replay.formats.common import count, known, listed, ns, obj, word
from replay.formats.genai.attributes import known_of
from replay.formats.genai.builder import Builder
from replay.formats.genai.logs import annotation
from replay.formats.genai.records import Event, Raw, RawSpan
from replay.formats.genai.values import parsed
from replay.formats.source import Tally
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, ModelCall, SourceScore

_KIND = "openinference.span.kind"

FORMAT = "openinference"


_OPERATIONS = {
    "chat": "LLM", "generate_content": "LLM", "text_completion": "LLM", "execute_tool": "TOOL",
    "invoke_agent": "AGENT", "create_agent": "AGENT", "embeddings": "EMBEDDING",
    "retrieval": "RETRIEVER",
}  # fmt: skip


def kind_of(raw: Raw) -> str:
    """The span's kind in OpenInference's words, NONE where nothing tells."""
    if raw.kind is not None:
        return raw.kind.upper()
    given = _OPERATIONS.get(str(raw.attributes.get("gen_ai.operation.name")))
    if given is not None:
        return given
    operation = word(raw.attributes.get("ai.operationId")) or ""
    if operation == "ai.toolCall":
        return "TOOL"
    if ".embed" in operation:
        return "EMBEDDING"
    if operation.endswith((".doGenerate", ".doStream")):
        return "LLM"
    return "AGENT" if operation else "NONE"


def trace(name: str, found: list[Raw], path: str, tally: Tally) -> Batch:
    """The one batch of a trace, from all its spans; `path` is where they were read."""
    tally.counts["traces"] += 1
    spans = Builder([known_of(_span(raw)) for raw in _once(found, tally)], tally).spans()
    row = _row(found)
    agent = next((span.name for span in spans if isinstance(span, AgentSpan)), None)
    header = Header(
        format=FORMAT,
        source_id=name,
        path=path,
        title=_title(spans, found),
        task=word(row.get("instance_id")),
        agent=_named(found, "agent.name") or agent,
        labels=known(session=_named(found, "session.id")),
        reference=row or None,
    )
    return Batch(header=header, spans=spans, scores=tuple(_scores(found)), last=True)


def _once(found: list[Raw], tally: Tally) -> list[Raw]:
    """The spans, each id once; they are counted by kind."""
    by_id: dict[str, Raw] = {}
    for raw in found:
        kind = kind_of(raw)
        tally.counts[f"kind {kind}"] += 1
        tally.counts["errors"] += raw.status == "error"
        if kind == "LLM":
            for part in ("prompt", "completion"):
                tokens = count(raw.attributes.get(f"llm.token_count.{part}"))
                tally.counts[f"{part}_tokens"] += tokens or 0
        if by_id.setdefault(raw.id, raw) is not raw:
            tally.problem(f"span {raw.id}", "stands in the file twice; it is read once")
    return list(by_id.values())


def _span(raw: Raw) -> RawSpan:
    """A span as OpenTelemetry has it, its kind an attribute; a table has its columns in an order of
    its own, so attributes go by their names."""
    kind = {_KIND: raw.kind} if raw.kind is not None else {}
    return RawSpan(
        trace=raw.trace,
        id=raw.id,
        parent=raw.parent,
        name=raw.name,
        start_ns=raw.start_ns,
        end_ns=raw.end_ns,
        status=raw.status,
        message=raw.message,
        attributes=dict(sorted({**raw.attributes, **kind}.items())),
        events=[
            Event(word(each.get("name")) or "", obj(each.get("attributes")), ns(each.get("time")))
            for each in raw.events
        ],
    )


def _named(found: list[Raw], attribute: str) -> str | None:
    """The first span's word for it that has one."""
    words = (word(raw.attributes.get(attribute)) for raw in found)
    return next((each for each in words if each is not None), None)


def _row(found: list[Raw]) -> dict[str, Json]:
    """The data set's row that the run was started with, gold answers in it, where it was logged."""
    for raw in found:
        for log in raw.logs:
            row = obj(obj(obj(log.get("body")).get("function.arguments")).get("item"))
            if row:
                return row
    return {}


def _title(spans: tuple[AnySpan, ...], found: list[Raw]) -> str | None:
    """The first line of what the user asked: the run's own task, else the first message."""
    for raw in found:
        given = parsed(raw.attributes.get("input.value"))
        task = word(obj(given).get("task")) or word(given if raw.parent is None else None)
        if task:
            return user_label([{"role": "user", "content": task}])
    for span in spans:
        if isinstance(span, ModelCall) and span.request.context is not None:
            return user_label([message.body for message in span.request.context.messages()])
    return None


def _scores(found: list[Raw]) -> Iterator[SourceScore]:
    """Annotations and evaluations that stand on spans."""
    for raw in found:
        for several, one in (("annotations", "annotation"), ("evaluations", "evaluation")):
            for entry in listed(raw.tree.get(several)):
                yield annotation(obj(obj(entry).get(one)), raw.id, one)
        for given in raw.annotations:
            yield annotation({**given, **obj(given.get("result"))}, raw.id)
