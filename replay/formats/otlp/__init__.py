"""OTLP: what OpenTelemetry's exporters and its collector write, in JSON and in protobuf.

The path of a file: bytes become records, spans and events of logs (`exports`, `json`, `protobuf`),
after those of the file of log records that belongs to it; records wait for the rest of their trace,
and what they say is read by `replay.formats.genai`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replay.errors import BadTrace
from replay.formats.common import known, word
from replay.formats.genai import attributes, logs
from replay.formats.genai.attributes import Kind, Known
from replay.formats.genai.builder import Builder, count_spans
from replay.formats.genai.logs import scores
from replay.formats.genai.reconcile import reconcile
from replay.formats.genai.records import Held, Log, RawSpan, Record, parsed
from replay.formats.genai.services import title_of
from replay.formats.otlp import exports, protobuf
from replay.formats.otlp.exports import Ends, by_line, exported
from replay.formats.otlp.twins import Twins, trace_calls
from replay.formats.sidecars import FileTally
from replay.formats.source import HEAD_BYTES, Head, Parts, Source, Tally
from replay.pins import pins_of
from replay.trace import GOLDEN, AgentSpan, AnySpan, Batch, Header, Level

NAME = "otlp"
TITLE = "OpenTelemetry (OTLP JSON and protobuf)"
FILES = ".json, .jsonl, .pb"
FIDELITY = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "whatever the instrumentation leaves out: often the tools, by default all messages"
VERIFIED = "real files"

_TELLING = frozenset({Kind.MODEL, Kind.TOOL, Kind.AGENT})


def sniff(head: Head) -> bool:
    """Metrics alone are nobody's trace, but traces may follow them."""
    if protobuf.looks_like(head.data):
        return True
    if not head.starts(b"{"):
        return False
    metrics = len(head.data) >= HEAD_BYTES and head.has(rb'\{\s*"resourceMetrics"\s*:')
    return metrics or head.has(rb'"(?:resourceSpans|resourceLogs)"\s*:\s*\[')


def part_of(path: Path) -> Path | None:
    """The file of spans that this file of log records is read with."""
    return exports.spans_of(path)


def is_part(source: Source) -> bool:
    """Does the file hold log records first, which tell of spans in other files?"""
    return exports.begins_with_logs(source)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id; events without one make a trace a session. A trace without a span of a
    model, a tool or an agent is left out. Raises BadTrace where none is left."""
    ends = Ends(source) if by_line(source) else None
    held = Held()
    closed: set[str] = set()
    found = 0
    try:
        parts = source.parts
        if parts is not None:
            parts.left -= 1
        for path in {*exports.logs_of(source.path), *(parts.paths if parts is not None else ())}:
            _hold_logs(Source(path), held, FileTally(tally, path.name))
        twins = Twins[Batch]()
        for made in _batches(source, tally, ends, held, closed):
            for batch in twins.add(made, trace_calls(made)):
                found += 1
                yield batch
        for batch in twins.rest():
            found += 1
            yield batch
        if twins.dropped:
            tally.counts["traces_of_calls_told_elsewhere"] += twins.dropped
    finally:
        held.close()
    if not found:
        raise BadTrace(source.display, "", _nothing(tally))


def _hold_logs(source: Source, held: Held, tally: Tally) -> None:
    """What a file beside the spans tells of them. Of no trace of its own is it the source."""
    try:
        for records, _, size in exported(source, tally):
            for record in records:
                trace = trace_of(record)
                if trace is None:
                    tally.counts["records_of_no_trace"] += 1
                else:
                    held.add(trace, record, size // len(records))
    except BadTrace as error:
        tally.problem(error.where, error.why)


def _batches(
    source: Source, tally: Tally, ends: Ends | None, held: Held, closed: set[str]
) -> Iterator[Batch]:
    for records, place, size in exported(source, tally):
        for record in records:
            trace = trace_of(record)
            if trace is None:
                tally.counts["records_of_no_trace"] += 1
            elif trace in closed:
                tally.problem(f"trace {trace}", "a record follows its end")
            else:
                held.add(trace, record, size // len(records))
        for trace in ends.reached(place) if ends is not None and place is not None else ():
            yield from _trace(trace, held, source, tally)
            closed.add(trace)
    for trace in held.traces():
        yield from _trace(trace, held, source, tally)


def trace_of(record: Record) -> str | None:
    """The name of the trace that a record belongs to; None where it belongs to none."""
    if record.trace is not None or isinstance(record, RawSpan):
        return record.trace
    session = logs.session_of(record)
    return f"session:{session}" if session is not None else None


def _nothing(tally: Tally) -> str:
    if tally.counts["spans"]:
        return "none of its spans is of a model, a tool or an agent"
    if tally.counts["log_records"]:
        return "contains log records, none of a model call"
    return "contains no span with an id and a trace id"


def _trace(name: str, held: Held, source: Source, tally: Tally) -> Iterator[Batch]:
    spans, told = held.take(name)
    if source.parts is not None and _is_elsewhere(name, bool(spans), source.parts):
        return
    batch = batch_of(name, spans, told, source.display, tally)
    del spans, told  # as large as the trace in its file: not beside what is made of it meanwhile
    if batch is not None:
        yield batch


def _is_elsewhere(name: str, has_spans: bool, parts: Parts) -> bool:
    """Are these log records of a trace whose spans were in another file, or may be in the next?"""
    if has_spans:
        parts.seen.add(name)
    return not has_spans and (name in parts.seen or parts.left > 0)


def batch_of(
    name: str, given: list[RawSpan], told: list[Log], path: str | None, tally: Tally
) -> Batch | None:
    """The trace of that name, put together from its records, which it may change; None where no
    agent is in it."""
    tally.counts["spans"] += len(given)
    raws = _joined(name, _once(given, tally), told)
    found = reconcile(raws)
    if not any(span.kind in _TELLING for span in found):
        tally.counts["traces_of_no_agent"] += bool(raws)
        return None
    tally.counts["traces"] += 1
    spans = Builder(found, tally).spans()
    count_spans(spans, tally)
    scored = tuple(scores(found, told))
    header = Header(
        format=NAME,
        source_id=name.removeprefix("session:"),
        path=path,
        title=_title(spans, found),
        variant=_variant(found),
        agent=next((span.name for span in spans if isinstance(span, AgentSpan)), None),
        labels=_labels(found),
        outcome=logs.outcome(found, scored),
    )
    return Batch(header=header, spans=spans, scores=scored, last=True)


def _once(given: list[RawSpan], tally: Tally) -> list[RawSpan]:
    """Each span once: exporters that had no answer send it again."""
    by_id: dict[str, RawSpan] = {}
    for raw in given:
        if by_id.setdefault(raw.id, raw) is not raw:
            tally.problem(f"span {raw.id}", "occurs twice in the file; read once")
    return list(by_id.values())


def _joined(name: str, given: list[RawSpan], told: list[Log]) -> list[RawSpan]:
    """The spans with what log records tell of them."""
    if not told:
        return given
    if not given:
        given = logs.spans_of(name, told)
    logs.figures(given, told)
    return logs.join(given, told)


def _labels(found: list[Known]) -> dict[str, str]:
    resource = found[0].raw.resource
    session = (span.word(attributes.SESSION) for span in found)
    golden = (span.word(attributes.GOLDEN_SET) for span in found)
    stamp = word(resource.get(GOLDEN)) or next((each for each in golden if each), None)
    labels = {} if stamp is None else {GOLDEN: stamp}
    agents = (word(span.raw.attributes.get("gen_ai.agent.version")) for span in found)
    version = next(filter(None, agents), None) or word(resource.get("service.version"))
    return (
        labels
        | pins_of(resource)
        | known(
            version=version,
            session=next((each for each in session if each is not None), None),
            service=word(resource.get("service.name")),
            environment=attributes.first_word(
                resource, ("deployment.environment.name", "deployment.environment")
            ),
        )
    )


def _variant(found: list[Known]) -> str | None:
    """The version of the prompt that the calls were made with, by its name where it has one."""
    for span in found:
        version = span.word(attributes.PROMPT_VERSION)
        if version is not None:
            name = span.word(attributes.PROMPT)
            return f"{name} {version}" if name else version
    return None


def _title(spans: tuple[AnySpan, ...], found: list[Known]) -> str | None:
    """The first line of what the run was asked: a root's input, else the first message to a model;
    else what the root is called."""
    ids = {span.raw.id for span in found}
    roots = [span for span in found if span.raw.parent not in ids]
    given = [value for root in roots if (value := parsed(root.of(attributes.GIVEN))) is not None]
    name = roots[0].raw.name if roots else None
    return title_of(spans, given[0] if given else None, name)
