"""One sample of an Inspect log as a trace: its header, its root, its spans, its outcome and its
scores.

The first scorer decides the outcome. Inspect grades C, P, I, N (correct, partial, incorrect, no
answer) or by number; a run passes at 1.0. A number outside 0..1 is on a scale we do not know, a set
of numbers has no one value: both leave the outcome unknown, with the value kept. Scores that events
give stand at the model call that each was given after.

A log may hold a sample's messages and no model events: then what a call saw is all before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from replay.errors import BadTrace
from replay.formats.chat import cut
from replay.formats.common import derived_id, known, listed, number, obj, stop, usd, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.inspect.archive import Attachments, Entry, Record, ns
from replay.formats.inspect.model_calls import read_usage
from replay.formats.inspect.spans import Builder, join_tools
from replay.formats.inspect.tree import Node, Tree, failed_attempts, find_speakers
from replay.formats.source import Tally
from replay.messages import content_text
from replay.pins import pins_of, version_labels
from replay.trace import (
    GOLDEN,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Outcome,
    Place,
    Request,
    Response,
    SourceScore,
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
    labels[GOLDEN] = golden_stamp(spec)
    labels["version.commit"] = word(obj(spec.get("revision")).get("commit"))
    labels |= version_labels(obj(spec.get("packages"))) | pins_of(obj(spec.get("metadata")))
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


def golden_stamp(spec: dict[str, Any]) -> str | None:
    """The golden set that an evaluation measures, by its metadata, else by a tag
    `arc.golden=<version> <digest>`."""
    tags = spec.get("tags")
    tagged = (word(each) or "" for each in (tags if isinstance(tags, list) else ()))
    begin = f"{GOLDEN}="
    own = (each.removeprefix(begin) for each in tagged if each.startswith(begin))
    return word(obj(spec.get("metadata")).get(GOLDEN)) or next(own, None)


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


_GRADES = {
    "C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0,
    "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0,
}  # fmt: skip

_QUOTE = {
    "includes", "match", "exact", "f1", "pattern", "answer", "choice", "math", "score",
    "model_graded_qa", "model_graded_fact",
}  # fmt: skip
"""Inspect's own scorers, whose explanation is what the run or a judge said ("score": by name
unknown)."""

PRINTED = 20_000
"""Characters of what a check printed; what matters of it stands at its end."""


def final_scores(sample: dict[str, Any], scored: list[Scored]) -> dict[str, dict[str, Any]]:
    """Every scorer's last word: the sample's scores, else those of its events."""
    written = {name: obj(score) for name, score in obj(sample.get("scores")).items()}
    if not written and isinstance(sample.get("score"), dict):
        written = {"score": sample["score"]}
    if written:
        return written
    return {each.scorer: each.score for each in scored if not each.intermediate}


def outcome(scores: dict[str, dict[str, Any]]) -> Outcome:
    """The outcome by the first scorer; unknown where none scored."""
    for scorer, score in scores.items():
        value = score.get("value")
        number = _number(value)
        shown = value if isinstance(value, str) else number
        if number is None or not 0 <= number <= 1:
            return Outcome(value=shown, by=scorer)
        return Outcome(status="passed" if number == 1 else "failed", value=shown, by=scorer)
    return Outcome()


def printed(
    sample: dict[str, Any], scores: dict[str, dict[str, Any]], texts: Attachments, *, by_model: bool
) -> str | None:
    """What the check printed: the deciding scorer's explanation, its beginning left out where long.

    None where the explanation is the run's own words, as the scorers that compare texts have it,
    or those of a model that was asked (`by_model`).
    """
    scorer, score = next(iter(scores.items()), ("", {}))
    text = word(texts.resolve(score.get("explanation")))
    if text is None or by_model or scorer in _QUOTE or "grading" in obj(score.get("metadata")):
        return None
    output = texts.resolve(obj(sample.get("output")).get("completion"))
    for own in (output, texts.resolve(score.get("answer"))):
        words = own.strip() if isinstance(own, str) else ""
        if words and (words in text or text.strip() in words):
            return None
    over = len(text) - PRINTED
    return text if over <= 0 else f"[{over} characters before this left out]\n{text[over:]}"


def source_scores(
    scores: dict[str, dict[str, Any]], scored: list[Scored], texts: Attachments
) -> tuple[SourceScore, ...]:
    """Final scores of the run, and intermediate ones of the model call they were given after."""
    found: list[SourceScore] = []
    for scorer, score in scores.items():
        found.extend(_rows(scorer, score, None, texts))
    for each in scored:
        if each.intermediate:
            found.extend(_rows(each.scorer, each.score, each.after, texts))
    return tuple(found)


def _rows(
    scorer: str, score: dict[str, Any], span: str | None, texts: Attachments
) -> list[SourceScore]:
    """One row a value; a scorer of several values names each `scorer.key`."""
    value = score.get("value")
    named = (
        {f"{scorer}.{key}": part for key, part in value.items()}
        if isinstance(value, dict)
        else {scorer: value}
    )
    explanation = word(texts.resolve(score.get("explanation")))
    return [
        SourceScore(
            name=name,
            by=scorer,
            span=span,
            value=_number(part),
            label=part if isinstance(part, str) else None,
            explanation=explanation,
        )
        for name, part in named.items()
    ]


def _number(value: Json) -> float | None:
    """The number of a score's value, None for anything that is no number."""
    if not isinstance(value, str):
        return number(value)
    grade = _GRADES.get(value, _GRADES.get(value.lower()))
    if grade is not None:
        return grade
    try:
        return number(float(value))
    except ValueError:
        return None


class Scored(NamedTuple):
    """A score event: by whom, what, and the model call of the scored thread before it."""

    scorer: str
    score: dict[str, Any]
    intermediate: bool
    after: str | None


def scored(nodes: Sequence[Node], texts: Attachments) -> list[Scored]:
    """Every score event, in its order. A call's id is its node's."""
    found: list[Scored] = []
    latest: dict[str, str] = {}
    for node in nodes:
        if node.kind == "model" and node.speaker is not None:
            latest[node.speaker.id] = node.id
        elif node.kind == "score":
            found.append(_scored(node, latest, texts))
    return found


def _scored(node: Node, latest: dict[str, str], texts: Attachments) -> Scored:
    try:
        event = obj(texts.read(node.raw))
    except BadTrace:
        event = {}
    above = list(node.ancestors())
    scorer = next((each.name for each in above if each.type == "scorer"), "score")
    judged = (latest.get(each.id) for each in above if each.type != "scorer")
    return Scored(
        scorer=word(event.get("scorer")) or scorer,
        score=obj(event.get("score")),
        intermediate=bool(event.get("intermediate")),
        after=next((ask for ask in judged if ask is not None), None),
    )


def spans_of_messages(
    given: Sequence[Raw],
    output: dict[str, Any],
    model: str | None,
    root: str,
    texts: Attachments,
    tally: Tally,
) -> tuple[AnySpan, ...]:
    """The calls of the sample, below its root; which tools were offered is not known.

    `output` is the sample's, which tells of its last call.
    """
    read = ((index, texts.message(raw)[0]) for index, raw in enumerate(given))
    messages = [(index, message) for index, message in read if message is not None]
    system = None
    if messages and messages[0][1].role == "system":
        _, system = messages.pop(0)
    thread = Thread(
        parent=root,
        request=Request(model=model, system=system),
        fidelity=Fidelity(level=Level.PARTIAL, reasons=(NO_TOOLS,)),
        tally=tally,
    )
    last = max((i for i, message in messages if message.role == "assistant"), default=None)
    for index, message in messages:
        place = Place(span=word(message.body.get("id")), message=index)
        if message.role == "assistant":
            thread.add_model_call(
                message, _turn(message, root, place, output if index == last else {})
            )
        else:
            thread.add_message(message, place=place)
    return thread.spans()


def _turn(message: Message, root: str, place: Place, output: dict[str, Any]) -> Turn:
    """A call known by its message."""
    choice = obj(next(iter(listed(output.get("choices"))), None))
    raw = word(choice.get("stop_reason"))
    return Turn(
        id=derived_id(root, "message", place.message),
        place=place,
        response=Response(
            model=word(message.body.get("model")) or word(output.get("model")),
            stop=stop(raw),
            stop_raw=raw,
        ),
        usage=read_usage(obj(output.get("usage"))),
    )
