"""What stands beside spans: log records of calls, Claude Code's own telemetry, evaluations as
scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from replay.formats.common import derived_id, listed, number, obj, seconds_ns, word
from replay.formats.genai import attributes
from replay.formats.genai.attributes import Kind, Known, first_word, kind_of
from replay.formats.genai.records import Event, Log, RawSpan, grown
from replay.formats.genai.translate import INFERENCE
from replay.trace import Json, Outcome, SourceScore, Status

EVALUATION = "gen_ai.evaluation.result"
_MESSAGES = ("gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message",
             "gen_ai.tool.message", "gen_ai.choice")  # fmt: skip


def join(spans: list[RawSpan], logs: list[Log]) -> list[RawSpan]:
    """The spans with what the log records tell of them, and spans only the records know of."""
    by_id = {raw.id: raw for raw in spans}
    made: list[RawSpan] = []
    for at, log in enumerate(logs):
        if log.event.name in (EVALUATION, "gen_ai.evaluation"):
            continue
        raw = by_id.get(log.span or "")
        if log.event.name == INFERENCE:
            if raw is None or kind_of(raw) is not Kind.MODEL or _has_messages(raw):
                raw = _inference(log, at, taken=raw is not None)
                made.append(raw)
                by_id.setdefault(raw.id, raw)
            raw.attributes = {**log.event.attributes, **raw.attributes}
        elif raw is not None:
            raw.events.append(log.event)
        elif log.event.name in _MESSAGES:
            raw = _inference(log, at, taken=False)
            raw.attributes[attributes.OPERATION] = "chat"
            raw.events.append(log.event)
            by_id[raw.id] = raw
            made.append(raw)
    return [*spans, *made]


def _has_messages(raw: RawSpan) -> bool:
    """Was the inference of this span told of already, by another record?"""
    return raw.logged and (
        attributes.INPUT in raw.attributes or attributes.OUTPUT in raw.attributes
    )


def _inference(log: Log, at: int, *, taken: bool) -> RawSpan:
    """A model call that no span tells of; its record was written when it had ended."""
    name = derived_id(log.trace, log.span, at) if taken or log.span is None else log.span
    return RawSpan(
        trace=log.trace or "",
        id=name,
        parent=log.span if taken else None,
        name=log.event.name,
        end_ns=log.event.time_ns,
        resource=log.resource,
        events=[],
        logged=True,
    )


def evaluations(
    spans: list[RawSpan], logs: list[Log]
) -> Iterator[tuple[str | None, dict[str, object]]]:
    """(span, attributes) of every evaluation, an event of a span or a log record; one that names
    a response is of the span that has it."""
    responses = {
        response: raw.id
        for raw in spans
        if (response := attributes.first_word(raw.attributes, attributes.RESPONSE.names))
        is not None
    }
    known = {raw.id for raw in spans}
    for raw in spans:
        for event in raw.events:
            if event.name in (EVALUATION, "gen_ai.evaluation"):
                yield raw.id, event.attributes
    for log in logs:
        if log.event.name in (EVALUATION, "gen_ai.evaluation"):
            given = log.event.attributes
            named = responses.get(attributes.first_word(given, attributes.RESPONSE.names) or "")
            yield named or (log.span if log.span in known else None), given


_STEM = "claude_code."
_CALLS = {"api_request": "llm_request", "api_error": "llm_request", "tool_result": "tool"}
"""Events told when something ended, and the kind of span that it was."""


def session_of(log: Log) -> str | None:
    """The session that an event without a trace belongs to."""
    return first_word(log.event.attributes, ("session.id",)) or word(log.resource.get("session.id"))


def spans_of(trace: str, logs: list[Log]) -> list[RawSpan]:
    """The spans that the events of a session tell of, below one agent; [] where they are none of
    Claude Code's."""
    found = [log for log in logs if log.event.name.startswith(_STEM)]
    if not found:
        return []
    root = RawSpan(
        trace=trace,
        id=derived_id(trace),
        name="claude_code.session",
        attributes={"span.type": "interaction", "gen_ai.agent.name": "claude-code"},
        resource=found[0].resource,
    )
    prompts = (word(log.event.attributes.get("prompt")) for log in found)
    prompt = next((each for each in prompts if each), None)
    if prompt is not None:
        root.attributes["input.value"] = prompt
    session = session_of(found[0])
    if session is not None:
        root.attributes["session.id"] = session
    calls = [_call(log, root, at) for at, log in enumerate(found) if _word(log) in _CALLS]
    starts = [call.start_ns for call in calls if call.start_ns is not None]
    ends = [call.end_ns for call in calls if call.end_ns is not None]
    root.start_ns, root.end_ns = min(starts, default=None), max(ends, default=None)
    return [root, *calls]


def _word(log: Log) -> str:
    return log.event.name.removeprefix(_STEM)


def _call(log: Log, root: RawSpan, at: int) -> RawSpan:
    event = log.event
    given = {name: value for name, value in event.attributes.items() if name != "session.id"}
    failed = _word(log) == "api_error" or given.get("success") in (False, "false")
    status: Status = "error" if failed else "ok"
    lasted = seconds_ns(_milliseconds(given) / 1000)
    known = event.time_ns is not None and lasted is not None
    return RawSpan(
        trace=root.trace,
        id=derived_id(root.trace, word(given.get("event.sequence")) or at, event.name),
        parent=root.id,
        name=event.name,
        start_ns=(event.time_ns or 0) - (lasted or 0) if known else None,
        end_ns=event.time_ns,
        status=status,
        message=word(given.get("error")) if failed else None,
        attributes={**given, "span.type": _CALLS[_word(log)]},
        resource=log.resource,
        logged=True,
    )


def _milliseconds(given: dict[str, Any]) -> float:
    try:
        return float(given.get("duration_ms") or 0)
    except (TypeError, ValueError, OverflowError):
        return 0.0


def figures(spans: list[RawSpan], logs: list[Log]) -> None:
    """Give the spans of requests what the event of the same request says they cost."""
    costs: dict[str, Json] = {}
    for log in logs:
        request = _request(log.event)
        if request is not None and "cost_usd" in log.event.attributes:
            costs[request] = log.event.attributes["cost_usd"]
    for raw in spans if costs else ():
        request = first_word(raw.attributes, ("request_id", "gen_ai.response.id"))
        if request in costs:
            raw.attributes.setdefault("cost_usd", costs[request or ""])


def _request(event: Event) -> str | None:
    named = event.name == f"{_STEM}api_request"
    return first_word(event.attributes, ("request_id",)) if named else None


_SCORES_STEM = "gen_ai.evaluation."
_COUNTED = (("annotations", "annotation"), ("evaluations", "evaluation"))


def scores(spans: list[Known], logs: list[Log]) -> Iterator[SourceScore]:
    """The scores of a trace; one that is given to the root is of the whole run."""
    several = len(spans) > 1
    roots = {each.raw.id for each in spans if each.raw.parent is None} if several else set()
    for span, given in evaluations([each.raw for each in spans], logs):
        yield SourceScore(
            name=word(given.get(f"{_SCORES_STEM}name")) or "evaluation",
            by=first_word(given, (f"{_SCORES_STEM}evaluator.name", "gen_ai.provider.name"))
            or "source",
            span=None if span in roots else span,
            value=number(
                given.get(f"{_SCORES_STEM}score.value", given.get(f"{_SCORES_STEM}score"))
            ),
            label=word(given.get(f"{_SCORES_STEM}score.label", given.get(f"{_SCORES_STEM}label"))),
            explanation=word(given.get(f"{_SCORES_STEM}explanation")),
        )
    for each in spans:
        if each.given.scores:
            yield from _annotations(each, None if each.raw.id in roots else each.raw.id)


def outcome(spans: list[Known], scores: Iterable[SourceScore]) -> Outcome:
    """What a root, or the resource, says of the run as a whole by `arc.outcome`; else what the
    labels of evaluations of the whole run say, where a single "failed" outweighs the others."""
    for each in spans:
        root = each.raw.parent is None
        said = each.word(attributes.OUTCOME) if root else None
        said = said or first_word(each.raw.resource, attributes.OUTCOME.names)
        status = attributes.ended_as(said)
        if status is not None:
            return Outcome(status=status, value=said, by=attributes.OUTCOME.names[0])
    labelled = [
        each for each in scores if each.span is None and attributes.ended_as(each.label) is not None
    ]
    found = min(
        labelled, key=lambda each: attributes.ended_as(each.label) != "failed", default=None
    )
    if found is None:
        return Outcome()
    return Outcome(
        status=attributes.ended_as(found.label) or "unknown", value=found.label, by=found.name
    )


def _annotations(known: Known, span: str | None) -> Iterator[SourceScore]:
    """Those that OpenInference counts in the names of attributes, of the span or the whole run."""
    tree = grown(known.given.scores)
    for several, one in _COUNTED:
        for entry in listed(tree.get(several)):
            yield annotation(obj(obj(entry).get(one)), span, one)
        for entry in listed(obj(tree.get("trace")).get(several)):
            yield annotation(obj(obj(entry).get(one)), None, one)


def annotation(
    said: dict[str, Json], span: str | None, otherwise: str = "annotation"
) -> SourceScore:
    """What somebody said of a span, or of the run where it is None."""
    return SourceScore(
        name=word(said.get("name")) or otherwise,
        by=word(said.get("annotator_kind")) or "source",
        span=span,
        value=number(said.get("score")),
        label=word(said.get("label")),
        explanation=word(said.get("explanation")),
    )
