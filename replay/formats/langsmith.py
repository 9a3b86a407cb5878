"""LangSmith: runs as its client lists them, as lines, a list, or a tree of child runs.

The path of a file: runs and feedback are told apart and gathered by trace; a run becomes a span, in
the words of OpenTelemetry's GenAI conventions; the root of a trace makes its header, feedback its
scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from replay.errors import BadTrace
from replay.formats.common import known, listed, ns, number, obj, word
from replay.formats.genai import attributes
from replay.formats.genai.functions import has_text, present, tool
from replay.formats.genai.records import RawSpan, ended, joined, readable, usd
from replay.formats.genai.services import (
    Groups,
    Record,
    agent_of,
    made_of,
    records,
    spans,
    title_of,
    values,
)
from replay.formats.genai.usage import figures, usage_of
from replay.formats.source import Head, Source, Tally
from replay.pins import pins_of, version_labels
from replay.trace import Batch, Header, Json, Level, SourceScore, Status

NAME = "langsmith"
TITLE = "LangSmith (runs as JSON or JSON Lines)"
FILES = ".json, .jsonl"
FIDELITY: tuple[Level, ...] = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "often the tools"
VERIFIED = "its source code"

_RUN = (rb'"run_type"\s*:\s*"', rb'"(?:dotted_order|trace_id|parent_run_id|child_runs)"\s*:')
_SESSIONS = ("thread_id", "session_id", "conversation_id")


def sniff(head: Head) -> bool:
    return head.starts(b"{", b"[") and (head.has(rb'"dotted_order"\s*:\s*"') or head.has(*_RUN))


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id. Raises BadTrace where there is no run."""
    groups = Groups()
    feedback = Feedback()
    found = False
    for trace, run in rows(source, feedback, tally):
        groups.add(trace, run)
        found = True
    if not found:
        raise BadTrace(source.display, "", "contains no run with an id")
    for name, held in groups.taken():
        yield _batch(name, held, feedback, source.display, tally)


def _batch(name: str, held: list[Record], feedback: Feedback, path: str, tally: Tally) -> Batch:
    held.sort(key=lambda run: word(run.get("dotted_order")) or "")
    raws: list[RawSpan] = []
    for run in held:
        tally.counts[f"type {word(run.get('run_type'))}"] += 1
        raws += made_of(run, f"run {run.get('id')}", raw, tally)
    found = spans(raws, tally)
    root = next((run for run in held if word(run.get("parent_run_id")) is None), held[0])
    metadata = obj(extra(root).get("metadata"))
    session = (word(metadata.get(each)) for each in _SESSIONS)
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_of(found, readable(root.get("inputs")), word(root.get("name"))),
        task=word(root.get("reference_example_id")),
        agent=agent_of(found) or word(root.get("name")),
        labels=pins_of(metadata)
        | version_labels(_versions(root))
        | known(
            session=next((each for each in session if each is not None), None),
            project=word(root.get("session_name")) or word(metadata.get("ls_project")),
            tags=joined(root.get("tags")),
        ),
        reported_cost_usd=usd(root.get("total_cost")),
    )
    scores = [score for run in held for score in _scores(run, root, feedback)]
    tally.counts["feedback"] += len(scores)
    return Batch(header=header, spans=found, scores=tuple(scores), last=True)


def _versions(root: Record) -> dict[str, Json]:
    """Of the packages that made a run, as the client names them: `langchain_version`."""
    runtime = obj(extra(root).get("runtime"))
    return {
        name.removesuffix("_version"): value
        for name, value in runtime.items()
        if name.endswith("_version")
    }


def _scores(run: Record, root: Record, feedback: Feedback) -> Iterator[SourceScore]:
    """What was said of a run; where only sums are exported, their mean. The root's are the whole
    run's."""
    name = word(run.get("id"))
    span = None if run is root else name
    told = [*map(obj, listed(run.get("feedback"))), *feedback.of(name)]
    for each in told:
        yield _score(each, span)
    keys = {word(each.get("key")) for each in told}
    for key, sums in obj(readable(run.get("feedback_stats"))).items():
        if key not in keys and number(obj(sums).get("avg")) is not None:
            count = obj(sums).get("n")
            said = f"mean of {count}" if isinstance(count, int) and count != 1 else None
            yield SourceScore(
                name=key,
                by="feedback",
                span=span,
                value=number(sums["avg"]),
                explanation=said,
            )


def _score(said: dict[str, Any], span: str | None) -> SourceScore:
    value = said.get("value")
    return SourceScore(
        name=word(said.get("key")) or "feedback",
        by=word(obj(said.get("feedback_source")).get("type")) or "feedback",
        span=span,
        value=number(said.get("score")),
        label=value if isinstance(value, str) and value else None,
        explanation=word(said.get("comment")),
    )


# --- runs and feedback


class Row(NamedTuple):
    trace: str
    run: dict[str, Any]


class Feedback:
    """What was said of runs, in records of its own."""

    def __init__(self) -> None:
        self._of: dict[str, list[dict[str, Any]]] = {}

    def add(self, run: str, said: dict[str, Any]) -> None:
        self._of.setdefault(run, []).append(said)

    def of(self, run: str | None) -> list[dict[str, Any]]:
        return self._of.get(run, []) if run is not None else []


def rows(source: Source, feedback: Feedback, tally: Tally) -> Iterator[Row]:
    """The runs; feedback is put aside."""
    for where, value in values(source, tally):
        for record in records(value, "runs", "data"):
            about = word(record.get("run_id"))
            if "run_type" not in record and "key" in record and about is not None:
                feedback.add(about, record)
                continue
            found = list(_nested(record))
            if not found:
                tally.problem(where, "is not a run with an id")
            yield from found


def _nested(record: dict[str, Any]) -> Iterator[Row]:
    """A run and those within it, each once on its own."""
    waiting: list[tuple[dict[str, Any], str | None, str | None]] = [(record, None, None)]
    while waiting:
        run, above, trace = waiting.pop()
        name = word(run.get("id")) or word(run.get("run_id"))
        if name is None:
            continue
        parent = word(run.get("parent_run_id")) or above or _above(run)
        trace = word(run.get("trace_id")) or trace or _first(run) or name
        inner = listed(run.get("child_runs"))
        own = {key: value for key, value in run.items() if key != "child_runs"}
        yield Row(trace, {**own, "id": name, "parent_run_id": parent})
        waiting += [(obj(each), name, trace) for each in reversed(inner) if obj(each)]


def _order(run: dict[str, Any]) -> list[str]:
    """The ids on the way to a run: each place in its order is a time, Z, and an id."""
    order = word(run.get("dotted_order")) or ""
    return [each.partition("Z")[2] for each in order.split(".")]


def _above(run: dict[str, Any]) -> str | None:
    path = _order(run)
    return path[-2] or None if len(path) > 1 else None


def _first(run: dict[str, Any]) -> str | None:
    return _order(run)[0] or None


# --- a run as a span

_KIND = "traceloop.span.kind"
"""The attribute by which a run of another type keeps its own word for it."""

_NO_SETTING = {"tools", "messages", "model", "model_name", "_type", "functions"}


def extra(run: dict[str, Any]) -> dict[str, Any]:
    return obj(readable(run.get("extra")))


def raw(run: dict[str, Any]) -> RawSpan | None:
    """The span of a run, None where it has no id."""
    name = word(run.get("id"))
    if name is None:
        return None
    start, end = ns(run.get("start_time")), ns(run.get("end_time"))
    return RawSpan(
        trace=word(run.get("trace_id")) or "",
        id=name,
        parent=word(run.get("parent_run_id")),
        name=word(run.get("name")) or "",
        start_ns=start,
        end_ns=ended(start, end),
        status=_status(run, end),
        message=word(run.get("error")),
        attributes=_attributes(run),
    )


def _status(run: dict[str, Any], end: int | None) -> Status:
    if run.get("error") or run.get("status") == "error":
        return "error"
    return "ok" if end is not None else "unset"


def _attributes(run: dict[str, Any]) -> dict[str, Json]:
    kind = (word(run.get("run_type")) or "run").lower()
    inputs, outputs = readable(run.get("inputs")), readable(run.get("outputs"))
    metadata = obj(extra(run).get("metadata"))
    about = known(**{"langsmith.metadata": metadata, "langsmith.tags": run.get("tags")})
    if kind == "llm":
        return {attributes.OPERATION: "chat", **about, **_model(run, inputs, outputs, metadata)}
    if kind == "tool":
        return {**tool(word(run.get("name")), _arguments(inputs), outputs), **about}
    if kind == "retriever":
        found = {"gen_ai.retrieval.documents": obj(outputs).get("documents", outputs)}
        query = word(obj(inputs).get("query"))
        return {
            attributes.OPERATION: "retrieval",
            **about,
            **present(**found, **{"gen_ai.retrieval.query.text": query}),
        }
    return {_KIND: kind, **about, **present(**{"input.value": inputs, "output.value": outputs})}


def _arguments(inputs: Json) -> Json:
    """What a tool was called with: LangChain writes it into a text, as JSON or as Python does."""
    given = obj(inputs)
    return readable(given["input"]) if given.keys() == {"input"} else inputs


def _model(
    run: dict[str, Any], inputs: Json, outputs: Json, metadata: dict[str, Any]
) -> dict[str, Json]:
    asked = obj(extra(run).get("invocation_params"))
    found = has_text(inputs, outputs)
    settings = {name: value for name, value in asked.items() if name not in _NO_SETTING}
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings:
        found["llm.invocation_parameters"] = settings
    if asked and not found.get("gen_ai.tool.definitions"):
        found["gen_ai.tool.definitions"] = listed(asked.get("tools"))
    model = word(asked.get("model")) or word(asked.get("model_name"))
    model = model or word(metadata.get("ls_model_name"))
    if model is not None:
        found["gen_ai.request.model"] = model
    found |= present(**{"gen_ai.provider.name": word(metadata.get("ls_provider"))})
    cost = usd(run.get("total_cost"))
    return found | _figures(run, outputs) | present(**{"gen_ai.usage.cost": cost})


def _figures(run: dict[str, Any], outputs: Json) -> dict[str, Json]:
    """The counts of the run; of an older one, what its answer says of them."""
    found = figures(run)
    if any(found.values()):
        return found
    return usage_of(outputs)
