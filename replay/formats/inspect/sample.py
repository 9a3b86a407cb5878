"""One sample of an Inspect log as a trace: its header, its root, its spans, its scores."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from replay.formats.chat import cut
from replay.formats.fields import known, obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.clock import ns
from replay.formats.inspect.events import failed_attempts
from replay.formats.inspect.log import Entry
from replay.formats.inspect.messages import spans_of_messages
from replay.formats.inspect.pairs import join_tools
from replay.formats.inspect.record import Record
from replay.formats.inspect.scored import scored
from replay.formats.inspect.spans import Builder
from replay.formats.inspect.tree import Tree, find_speakers
from replay.formats.inspect.verdict import final_scores, outcome, printed, source_scores
from replay.formats.intake import Tally
from replay.formats.normal import derived_id, usd
from replay.messages import content_text
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Header,
    Place,
    TimeQuality,
)

FORMAT = "inspect"


SPANS = 2_500
"""Most spans of a batch."""


def read_sample(entry: Entry, path: str, tally: Tally) -> Iterator[Batch]:
    """The trace of a sample in batches, its root first."""
    sample = entry.sample
    texts = Attachments(sample.attachments, path, entry.where)
    source_id, item = _identity(entry)
    root = word(sample.fields.get("uuid")) or derived_id(source_id, item)
    tree = Tree(root, sample.events, tally, entry.where)
    _count(sample, tree, tally)
    sample.events.clear()
    join_tools(tree)
    find_speakers(tree.nodes)
    given = scored(tree.nodes, texts)
    scores = final_scores(sample.fields, given)
    rows = source_scores(scores, given, texts)
    header = _header(entry, path, source_id, item, scores, texts, tree)
    spans = _spans(entry, tree, _root(entry, root, header, scores, texts), texts, tally)
    batch = tuple(islice(spans, SPANS))
    while following := tuple(islice(spans, SPANS)):
        yield Batch(header=header, spans=batch)
        batch = following
    sample.let_go()
    yield Batch(header=header, spans=batch, scores=rows, last=True)


def _spans(
    entry: Entry, tree: Tree, root: AgentSpan, texts: Attachments, tally: Tally
) -> Iterator[AnySpan]:
    sample = entry.sample
    asks = any(node.kind == "model" for node in tree.nodes)
    builder = Builder(tree.nodes, sample.pool, texts, tally, entry.where)
    tree.nodes.clear()
    yield root
    yield from failed_attempts(sample.retries, root.id, texts)
    yield from builder.spans()
    if not asks:
        model = word(obj(entry.log.get("eval")).get("model"))
        output = obj(texts.resolve(sample.fields.get("output")))
        yield from spans_of_messages(sample.messages, output, model, root.id, texts, tally)


def _count(sample: Record, tree: Tree, tally: Tally) -> None:
    tally.counts["samples"] += 1
    tally.counts["events"] += len(sample.events)
    tally.counts["tool_events"] += tree.tools
    for name in sample.strange:
        tally.unknown[f"sample {name}"] += 1


def _identity(entry: Entry) -> tuple[str, str]:
    """The sample's uuid, else its log's id; logs of 2024 have only those of run and task."""
    sample, spec = entry.sample.fields, obj(entry.log.get("eval"))
    item = f"{_sample_id(entry)}/{_epoch(sample)}"
    own = word(sample.get("uuid")) or word(spec.get("eval_id"))
    run, task = word(spec.get("run_id")), word(spec.get("task_id"))
    if own is None and run is not None:
        own = f"{run}/{task}" if task else run
    if own is None:
        own = derived_id(msgspec.json.encode([spec, sample.get("input")]).hex())
    return own, item


def _sample_id(entry: Entry) -> str:
    return word(entry.sample.fields.get("id")) or entry.where


def _epoch(sample: dict[str, Any]) -> str:
    return word(sample.get("epoch")) or "1"


def _header(
    entry: Entry,
    path: str,
    source_id: str,
    item: str,
    scores: dict[str, dict[str, Any]],
    texts: Attachments,
    tree: Tree,
) -> Header:
    sample, spec = entry.sample.fields, obj(entry.log.get("eval"))
    task = word(spec.get("task"))
    start, end = _span_of_time(sample, tree)
    labels = {name: word(spec.get(name)) for name in ("model", "eval_id", "run_id")}
    judged = any(node.kind == "model" and node.speaker_type == "scorer" for node in tree.nodes)
    reference = known(
        target=texts.resolve(sample.get("target")),
        choices=texts.resolve(sample.get("choices")),
        check=known(printed=printed(sample, scores, texts, by_model=judged)),
    )
    return Header(
        format=FORMAT,
        source_id=source_id,
        item=item,
        path=path,
        title=": ".join(part for part in (task, _first_line(sample, texts)) if part) or None,
        task=_sample_id(entry),
        trial=_epoch(sample),
        agent=task,
        outcome=outcome(scores),
        labels={name: value for name, value in labels.items() if value is not None},
        reference=reference or None,
        reported_cost_usd=_reported_cost(sample),
        start_ns=start,
        end_ns=end,
    )


def _span_of_time(sample: dict[str, Any], tree: Tree) -> tuple[int | None, int | None]:
    """When the sample began and ended; logs before late 2025 tell only by their events."""
    start, end = ns(sample.get("started_at")), ns(sample.get("completed_at"))
    return tree.first_ns if start is None else start, tree.last_ns if end is None else end


def _first_line(sample: dict[str, Any], texts: Attachments) -> str:
    """The first line of what the user said: of the input, or of its user message."""
    given = texts.resolve(sample.get("input"))
    if isinstance(given, list):
        bodies = [body for body in given if isinstance(body, dict)]
        said = [body for body in bodies if body.get("role") == "user"] or bodies
        given = content_text(said[0].get("content")) if said else None
    lines = given.strip().splitlines() if isinstance(given, str) else ()
    return cut(lines[0].strip()) if lines else ""


def _reported_cost(sample: dict[str, Any]) -> float | None:
    """The sum over all models used, None unless every one has a cost."""
    costs = [obj(usage).get("total_cost") for usage in obj(sample.get("model_usage")).values()]
    known = [amount for each in costs if (amount := usd(each)) is not None]
    return sum(known) if known and len(known) == len(costs) else None


def _root(
    entry: Entry,
    root: str,
    header: Header,
    scores: dict[str, dict[str, Any]],
    texts: Attachments,
) -> AgentSpan:
    sample = entry.sample.fields
    error = obj(sample.get("error"))
    status = word(entry.log.get("status"))
    failed = word(error.get("message")) or word(sample.get("error")) or ("error" if error else None)
    return AgentSpan(
        id=root,
        name=header.agent or "sample",
        start_ns=header.start_ns,
        end_ns=header.end_ns,
        time_quality=_quality(sample, header),
        status="error" if failed else "ok",
        error=failed,
        place=Place(span=word(sample.get("uuid"))),
        extra=known(
            limit=sample.get("limit"),
            invalidation=sample.get("invalidation"),
            traceback=texts.resolve(error.get("traceback")),
            answers=texts.resolve(known(**{n: s.get("answer") for n, s in scores.items()})),
            metadata=texts.resolve(sample.get("metadata")),
            log_status=status if status != "success" else None,
        ),
    )


def _quality(sample: dict[str, Any], header: Header) -> TimeQuality:
    if header.start_ns is None:
        return "none"
    return "exact" if sample.get("started_at") and sample.get("completed_at") else "derived"
