"""OpenInference span trees: nested exports, Phoenix exports and lists of SDK spans.

The path of a file: each export's spans become one private shape (`spans`, `tables`), sorted by
trace; what was asked and answered is read from a span's attributes, and the spans of a trace are
put together, tools with the calls that asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from replay.errors import BadTrace
from replay.formats.genai.records import Raw
from replay.formats.openinference import tables
from replay.formats.openinference.spans import FORMAT, raws, trace_batch
from replay.formats.source import Head, Source, Tally, decoded
from replay.trace import Batch, Json, Level

NAME = FORMAT
TITLE = "OpenInference spans (Phoenix exports, also Parquet and nested spans)"
FILES = ".json, .jsonl, .parquet"
FIDELITY = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "often the tools"
VERIFIED = "real files"

_NESTED = (rb'"span_attributes"\s*:', rb'"span_id"\s*:')
_PHOENIX = (rb'"context"\s*:\s*\{\s*"(?:trace|span)_id"', rb'"span_kind"\s*:')
_OTLP_V1 = (rb'"attributes"\s*:\s*\[\s*\{\s*"key"', rb'"(?:string|array)_value"\s*:')
_NOTHING = "contains no span with an id and a trace id"
_SDK = (rb'"spanContext"\s*:\s*\{\s*"(?:traceId|spanId)"', rb'"attributes"\s*:\s*\{')


def sniff(head: Head) -> bool:
    if head.data.startswith(tables.MAGIC):
        return tables.looks_like(head)
    forms = (_NESTED, _PHOENIX, _OTLP_V1, _SDK)
    return head.starts(b"{", b"[") and any(head.has(*form) for form in forms)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id. Raises BadTrace where the document contains no span."""
    if source.head.data.startswith(tables.MAGIC):
        yield from _of_parquet(source, tally)
        return
    traces: dict[str, list[Raw]] = {}
    for document in _documents(source, tally):
        for raw in raws(document, tally):
            traces.setdefault(raw.trace, []).append(raw)
    if not traces:
        raise BadTrace(source.display, "", _NOTHING)
    for name in list(traces):
        yield trace_batch(name, traces.pop(name), source.display, tally)


def _of_parquet(source: Source, tally: Tally) -> Iterator[Batch]:
    found = 0
    for name, group in groupby(tables.raws(source, tally), key=lambda raw: raw.trace):
        found += 1
        yield trace_batch(name, list(group), source.display, tally)
    if not found:
        raise BadTrace(source.display, "", _NOTHING)


def _documents(source: Source, tally: Tally) -> Iterator[Json]:
    """The document; or, where the first line is one, the document of each line: pages of a
    listing, or spans, written one below another."""
    lines = source.head.lines()
    if len(lines) > 1 and isinstance(decoded(lines[0]), (dict, list)):
        yield from source.values(tally)
    else:
        yield source.document()
