"""Batches of traces masked, digested and ready to be written: all that needs no database.

Secrets in ids and names of a recording are masked before anything refers to them, so that
references still hold; the key of a trace is made before. Texts and values are masked where they
become rows, in `content`. What comes out is plain values, which another process can be handed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec
from msgspec import Struct, field, structs

from replay.digests import run_id, trace_id
from replay.errors import BadTrace
from replay.store import spans
from replay.store.connection import Row
from replay.store.content import Content, Masks, Table
from replay.trace import FLEET, AnySpan, Batch, Header, ModelCall, SourceScore, ToolCall


class Prepared(Struct, frozen=True, kw_only=True):
    """A batch of the trace `key`. `begin` are the columns of the trace that stand from its start,
    `about` those that its latest batch says; `tables` are the rows of other tables."""

    key: str
    path: str | None
    begin: Row
    about: Row
    tables: dict[str, Table]
    spans: int
    last: bool


class Refused(Struct, frozen=True, kw_only=True):
    """A trace that cannot be written, whatever came of it before."""

    key: str
    error: BadTrace


class _Trace(Struct):
    """A trace whose last batch has not come: what it said, and the ids of its spans so far."""

    content: Content
    ids: set[str] = field(default_factory=set)


def key_of(batch: Batch) -> str:
    """The id of the trace that a batch is of."""
    header = batch.header
    return trace_id(header.format, header.source_id, header.item)


SPANS_A_PIECE = 256
"""So many spans of a long trace are prepared at once: until they are written, what they say is held
as it was read, as it is kept and as it is found."""


class Preparer:
    """Prepares batches. What a trace says is remembered up to its last batch."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._open: dict[str, _Trace] = {}
        self._refused: set[str] = set()

    def prepare(self, batches: Iterable[Batch]) -> Iterator[Prepared | Refused]:
        """The batches in their order, long ones in pieces. Of a trace that is refused nothing else
        comes."""
        for batch in chain.from_iterable(map(_pieces, batches)):
            key = key_of(batch)
            if key not in self._refused:
                try:
                    yield self.batch(batch)
                except BadTrace as error:
                    self._refused.add(key)
                    yield Refused(key=key, error=error)
            if batch.last:  # the same trace may stand in another file
                self._refused.discard(key)

    def batch(self, batch: Batch) -> Prepared:
        """One batch. Raises BadTrace where a span id stands twice."""
        key, masks = key_of(batch), self._masks
        trace = self._open.get(key)
        if trace is None:
            trace = self._open[key] = _Trace(Content(masks))
        made: Prepared | None = None
        try:
            made = _prepared(key, trace, masks, batch)
        finally:
            if made is None or batch.last:
                self.forget(key)
        return made

    def forget(self, key: str) -> None:
        """Drop what is remembered of a trace."""
        self._open.pop(key, None)


def _pieces(batch: Batch) -> Iterator[Batch]:
    """A batch in pieces, the scores with the last; whole where an id stands twice in it, so that
    nothing of it is written before that is found."""
    spans = batch.spans
    if len(spans) <= SPANS_A_PIECE or len({span.id for span in spans}) < len(spans):
        yield batch
        return
    ends = range(SPANS_A_PIECE, len(spans) + SPANS_A_PIECE, SPANS_A_PIECE)
    for end in ends:
        whole = end >= len(spans)
        yield structs.replace(
            batch,
            spans=spans[end - SPANS_A_PIECE : end],
            scores=batch.scores if whole else (),
            last=batch.last and whole,
        )


def _prepared(key: str, trace: _Trace, masks: Masks, batch: Batch) -> Prepared:
    header, content = of_header(masks, batch.header), trace.content
    clear = masks.harmless(name for each in batch.spans for name in _names(each))
    for each in batch.spans:
        span = each if clear else of_span(masks, each)
        if span.id in trace.ids:
            raise BadTrace(header.path or "-", f"span {span.id}", "occurs twice")
        spans.put(content, len(trace.ids), span)
        trace.ids.add(span.id)
    for score in batch.scores:
        row = msgspec.structs.asdict(of_score(masks, score))
        row["span_id"], row["source"] = row.pop("span"), row.pop("by")
        content.rows.add("source_score", row)
    return Prepared(
        key=key,
        path=header.path,
        begin={
            "key": key,
            "run": run_id(header.run or header.source_id, header.item),
            "format": header.format,
            "source_id": header.source_id,
        },
        about=_about(masks, header),
        tables=content.rows.take(),
        spans=len(batch.spans),
        last=batch.last,
    )


def _about(masks: Masks, header: Header) -> Row:
    value = header.outcome.value
    return {
        "item": header.item,
        "path": _absolute(header.path),
        "title": masks.text(header.title),
        "task": header.task,
        "trial": header.trial,
        "variant": header.variant,
        "agent": header.agent,
        "outcome": header.outcome.status,
        "outcome_value": None if value is None else str(value),
        "outcome_by": header.outcome.by,
        "labels": masks.json(header.labels) or "{}",
        "reference": masks.json(header.reference),
        "reported_cost_usd": header.reported_cost_usd,
        "start_ns": header.start_ns,
        "end_ns": header.end_ns,
    }


def of_header(masks: Masks, header: Header) -> Header:
    """What a header says in names, masked."""
    known = (
        header.format, header.source_id, header.run, header.item, header.path, header.task,
        header.trial, header.variant, header.agent, header.outcome.by, str(header.outcome.value),
    )  # fmt: skip
    if masks.harmless(known):
        return header
    said, value = header.outcome, header.outcome.value
    text = masks.text
    return structs.replace(
        header,
        format=text(header.format) or "",
        source_id=text(header.source_id) or "",
        run=text(header.run),
        item=text(header.item),
        path=text(header.path),
        task=text(header.task),
        trial=text(header.trial),
        variant=text(header.variant),
        agent=text(header.agent),
        outcome=structs.replace(
            said, by=text(said.by), value=text(value) if isinstance(value, str) else value
        ),
    )


def _absolute(path: str | None) -> str | None:
    """Where a file lies, whatever folder it was named from; `-` is standard input, and a trace
    store no file."""
    if path is None or path == "-" or path.startswith(FLEET):
        return path
    return os.path.abspath(path)


def of_span(masks: Masks, span: AnySpan) -> AnySpan:
    """A span whose ids and names are masked."""
    return span if masks.harmless(_names(span)) else _masked(masks, span)


def _names(span: AnySpan) -> tuple[str | None, ...]:
    """The ids and names of a span."""
    known = (span.id, span.parent, span.place.span)
    if isinstance(span, ModelCall):
        asked, said = span.request, span.response
        return (*known, span.agent, asked.model, said.id, said.model, said.stop_raw)
    if isinstance(span, ToolCall):
        return (*known, span.call_id, span.asked_by)
    return known


def _masked(masks: Masks, span: AnySpan) -> AnySpan:
    text = masks.text
    span = structs.replace(
        span,
        id=text(span.id) or "",
        parent=text(span.parent),
        place=structs.replace(span.place, span=text(span.place.span)),
    )
    if isinstance(span, ModelCall):
        said = span.response
        return structs.replace(
            span,
            agent=text(span.agent),
            request=structs.replace(span.request, model=text(span.request.model)),
            response=structs.replace(
                said,
                id=text(said.id),
                model=text(said.model),
                stop_raw=text(said.stop_raw),
            ),
        )
    if isinstance(span, ToolCall):
        return structs.replace(span, call_id=text(span.call_id), asked_by=text(span.asked_by))
    return span


def of_score(masks: Masks, score: SourceScore) -> SourceScore:
    """A score of the source, all of its texts masked."""
    text = masks.text
    return structs.replace(
        score,
        name=text(score.name) or "",
        by=text(score.by) or "",
        span=text(score.span),
        label=text(score.label),
        explanation=text(score.explanation),
    )
