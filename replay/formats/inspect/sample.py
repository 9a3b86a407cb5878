"""One sample of an Inspect log as a trace: its header, its root, its spans, its scores."""

from __future__ import annotations

from typing import Any

import msgspec

from replay.formats.chat import cut
from replay.formats.fields import known, listed, obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.log import Entry
from replay.formats.inspect.messages import spans_of_messages
from replay.formats.inspect.spans import Builder
from replay.formats.inspect.tree import Tree
from replay.formats.inspect.verdict import final_scores, outcome, source_scores
from replay.formats.intake import Tally
from replay.formats.normal import derived_id, ns
from replay.messages import content_text
from replay.trace import (
    AgentSpan,
    Batch,
    Header,
    Json,
    Outcome,
    Place,
    TimeQuality,
)

FORMAT = "inspect"


def read_sample(entry: Entry, path: str, tally: Tally) -> Batch:
    """The whole trace of a sample in one batch."""
    sample = entry.sample
    texts = Attachments(sample)
    source_id, item = _identity(entry)
    root = word(sample.get("uuid")) or derived_id(source_id, item)
    events = listed(sample.get("events")) or listed(obj(sample.get("transcript")).get("events"))
    _count(events, tally)
    built = Builder(sample, Tree(root, events, tally, entry.where), texts, tally)
    spans = built.spans
    if not built.asks:
        spans = [*spans, *spans_of_messages(entry, root, texts, tally)]
    scores = final_scores(sample, built.scored)
    header = _header(entry, path, source_id, item, outcome(scores), texts, events)
    return Batch(
        header=header,
        spans=(_root(entry, root, header, scores, texts), *spans),
        scores=source_scores(scores, built.scored, texts),
        last=True,
    )


def _count(events: list[Json], tally: Tally) -> None:
    tally.counts["samples"] += 1
    tally.counts["events"] += len(events)
    tally.counts["tool_events"] += sum(obj(event).get("event") == "tool" for event in events)


def _identity(entry: Entry) -> tuple[str, str]:
    """The sample's uuid, else its log's id; logs of 2024 have only those of run and task."""
    sample, spec = entry.sample, obj(entry.log.get("eval"))
    item = f"{_sample_id(entry)}/{_epoch(sample)}"
    own = word(sample.get("uuid")) or word(spec.get("eval_id"))
    run, task = word(spec.get("run_id")), word(spec.get("task_id"))
    if own is None and run is not None:
        own = f"{run}/{task}" if task else run
    if own is None:
        own = derived_id(msgspec.json.encode([spec, sample.get("input")]).hex())
    return own, item


def _sample_id(entry: Entry) -> str:
    return word(entry.sample.get("id")) or entry.where


def _epoch(sample: dict[str, Any]) -> str:
    return word(sample.get("epoch")) or "1"


def _header(
    entry: Entry,
    path: str,
    source_id: str,
    item: str,
    verdict: Outcome,
    texts: Attachments,
    events: list[Json],
) -> Header:
    sample, spec = entry.sample, obj(entry.log.get("eval"))
    task = word(spec.get("task"))
    start, end = _span_of_time(sample, events)
    labels = {name: word(spec.get(name)) for name in ("model", "eval_id", "run_id")}
    reference = known(
        target=texts.resolve(sample.get("target")), choices=texts.resolve(sample.get("choices"))
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
        outcome=verdict,
        labels={name: value for name, value in labels.items() if value is not None},
        reference=reference or None,
        reported_cost_usd=_reported_cost(sample),
        start_ns=start,
        end_ns=end,
    )


def _span_of_time(sample: dict[str, Any], events: list[Json]) -> tuple[int | None, int | None]:
    """When the sample began and ended; logs before late 2025 tell only by their events."""
    start, end = ns(sample.get("started_at")), ns(sample.get("completed_at"))
    if start is not None and end is not None:
        return start, end
    stamps = [at for at in (ns(obj(event).get("timestamp")) for event in events) if at is not None]
    first, last = min(stamps, default=None), max(stamps, default=None)
    return first if start is None else start, last if end is None else end


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
    numbers = [float(usd) for usd in costs if isinstance(usd, (int, float))]
    return sum(numbers) if numbers and len(numbers) == len(costs) else None


def _root(
    entry: Entry,
    root: str,
    header: Header,
    scores: dict[str, dict[str, Any]],
    texts: Attachments,
) -> AgentSpan:
    sample, error = entry.sample, obj(entry.sample.get("error"))
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
            error_retries=texts.resolve(sample.get("error_retries")),
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
