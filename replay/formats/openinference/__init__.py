"""OpenInference span trees: nested exports, Phoenix exports and lists of SDK spans.

The path of a file: each export's spans become one private shape (`exports`, `parquet`), sorted by
trace; the attributes of a span (`attributes`) tell what was asked and answered (`messages`,
`calls`); the spans of a trace are put together, tools with the calls that asked for them (`tree`).
Frameworks that write a call of a tool into the prose of a message are read too (`written`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from replay.errors import BadTrace
from replay.formats.chat import user_label
from replay.formats.common import known, listed, number, obj, word
from replay.formats.openinference import parquet
from replay.formats.openinference.exports import Raw, parsed, raws
from replay.formats.openinference.tree import Builder
from replay.formats.source import Head, Source, Tally, decode
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, Level, ModelCall, SourceScore

NAME = "openinference"
TITLE = "OpenInference spans (Phoenix's exports, parquet among them, and nested ones)"
FILES = ".json, .jsonl, .parquet"
FIDELITY = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "often the tools"

_NESTED = (rb'"span_attributes"\s*:', rb'"span_id"\s*:')
_PHOENIX = (rb'"context"\s*:\s*\{\s*"(?:trace|span)_id"', rb'"span_kind"\s*:')
_OTLP_V1 = (rb'"attributes"\s*:\s*\[\s*\{\s*"key"', rb'"(?:string|array)_value"\s*:')
_NOTHING = "holds no span with an id and a trace id"
_SDK = (rb'"spanContext"\s*:\s*\{\s*"(?:traceId|spanId)"', rb'"attributes"\s*:\s*\{')


def sniff(head: Head) -> bool:
    if head.data.startswith(parquet.MAGIC):
        return parquet.looks_like(head)
    forms = (_NESTED, _PHOENIX, _OTLP_V1, _SDK)
    return head.starts(b"{", b"[") and any(head.has(*form) for form in forms)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id. Raises BadTrace where the document holds no span."""
    if source.head.data.startswith(parquet.MAGIC):
        yield from _of_parquet(source, tally)
        return
    traces: dict[str, list[Raw]] = {}
    for document in _documents(source, tally):
        for raw in raws(document, tally):
            traces.setdefault(raw.trace, []).append(raw)
    if not traces:
        raise BadTrace(source.display, "", _NOTHING)
    for name in list(traces):
        yield trace(name, traces.pop(name), source.display, tally)


def _of_parquet(source: Source, tally: Tally) -> Iterator[Batch]:
    found = 0
    for name, group in groupby(parquet.raws(source, tally), key=lambda raw: raw.trace):
        found += 1
        yield trace(name, list(group), source.display, tally)
    if not found:
        raise BadTrace(source.display, "", _NOTHING)


def _documents(source: Source, tally: Tally) -> Iterator[Json]:
    """The document; or, where the first line is one, the document of each line: pages of a
    listing, or spans, written one below another."""
    lines = source.head.lines()
    first = lines[0] if len(lines) > 1 else b""
    try:
        by_line = isinstance(decode(first, source.display, "line 1"), (dict, list))
    except BadTrace:
        by_line = False
    if not by_line:
        yield source.document()
        return
    for at, line in source.lines():
        try:
            yield decode(line, source.display, f"line {at}")
        except BadTrace as error:
            tally.problem(error.where, error.why)


def trace(name: str, found: list[Raw], path: str, tally: Tally) -> Batch:
    """The one batch of a trace, from all its spans; `path` is where they were read."""
    tally.counts["traces"] += 1
    builder = Builder(found, tally)
    spans = builder.spans()
    row = _row(found)
    agent = next((span.name for span in spans if isinstance(span, AgentSpan)), None)
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=_title(spans, found),
        task=word(row.get("instance_id")),
        agent=_named(found, "agent.name") or agent,
        labels=known(session=_named(found, "session.id")),
        reference=row or None,
    )
    return Batch(header=header, spans=spans, scores=tuple(_scores(found)), last=True)


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
                yield score(obj(obj(entry).get(one)), raw.id, one)
        for given in raw.annotations:
            yield score({**given, **obj(given.get("result"))}, raw.id)


def score(said: dict[str, Json], span: str | None, otherwise: str = "annotation") -> SourceScore:
    """What somebody said of a span, or of the run where it is None."""
    return SourceScore(
        name=word(said.get("name")) or otherwise,
        by=word(said.get("annotator_kind")) or "source",
        span=span,
        value=number(said.get("score")),
        label=word(said.get("label")),
        explanation=word(said.get("explanation")),
    )
