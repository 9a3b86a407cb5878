"""Weave: calls as its service streams them, one a line, and as its pages export them.

A call's usage is summed up its parents, so only those with no such call below them called a model.
What stands as a reference (`weave:///…`) is not in the file and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats.common import known, listed, ns, number, obj, word
from replay.formats.genai import attributes
from replay.formats.genai.functions import has_text, present, tool
from replay.formats.genai.records import RawSpan, ended, readable, usd
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
from replay.formats.genai.usage import figures
from replay.formats.source import Head, Source, Tally
from replay.trace import Batch, Header, Json, Level, SourceScore, Status

NAME = "weave"
TITLE = "Weave (calls as JSON Lines)"
FILES = ".json, .jsonl"
FIDELITY: tuple[Level, ...] = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "often the tools"
VERIFIED = "its source code"

_REF = "weave:///"
_KIND = "traceloop.span.kind"
"""The attribute by which a call of another kind keeps its own word for it."""


def sniff(head: Head) -> bool:
    return head.starts(b"{", b"[") and head.has(
        rb'"op_name"\s*:\s*"', rb'"(?:project_id|trace_id|started_at)"\s*:'
    )


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id; deleted calls are left out. Raises BadTrace where no call is left."""
    groups = Groups()
    found = False
    for where, value in values(source, tally):
        for record in records(value, "calls", "data"):
            name, trace = word(record.get("id")), word(record.get("trace_id"))
            if name is None or "op_name" not in record:
                tally.problem(where, "is not a call with an id")
            elif record.get("deleted_at"):
                tally.counts["deleted_calls"] += 1
            else:
                groups.add(trace or name, record)
                found = True
    if not found:
        raise BadTrace(source.display, "", "contains no call with an id")
    for name, held in groups.taken():
        yield _batch(name, held, source.display, tally)


def _batch(name: str, held: list[Record], path: str, tally: Tally) -> Batch:
    tally.counts["calls"] += len(held)
    models = _models(held)
    raws: list[RawSpan] = []
    for call in held:
        kind = "llm" if word(call.get("id")) in models else _kind(call)
        raws += made_of(call, f"call {call.get('id')}", lambda one, k=kind: _raw(one, k), tally)
    found = spans(raws, tally)
    ids = {word(call.get("id")) for call in held}
    root = next((call for call in held if word(call.get("parent_id")) not in ids), held[0])
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_of(found, _resolved(root.get("inputs"))[0], _name(root)),
        agent=agent_of(found) or _name(root),
        labels=known(
            session=word(root.get("thread_id")),
            project=word(root.get("project_id")),
            user=word(root.get("wb_user_id")),
        ),
    )
    scores = [score for call in held for score in _scores(call, root)]
    tally.counts["feedback"] += len(scores)
    return Batch(header=header, spans=found, scores=tuple(scores), last=True)


def _models(held: list[Record]) -> set[str | None]:
    """The calls of models: with usage, or with the arguments of one, and none below them."""
    wanted = {word(call.get("id")) for call in held if _usage(call) or _asks(call)}
    above = {word(call.get("id")): word(call.get("parent_id")) for call in held}
    over: set[str | None] = set()
    for name in wanted:
        parent = above.get(name)
        while parent is not None and parent not in over:
            over.add(parent)
            parent = above.get(parent)
    return wanted - over


def _usage(call: Record) -> dict[str, Any]:
    """Figures by model."""
    return obj(obj(readable(call.get("summary"))).get("usage"))


def _asks(call: Record) -> bool:
    given = obj(readable(call.get("inputs")))
    asked = any(isinstance(given.get(name), list) for name in ("messages", "contents"))
    return asked and word(given.get("model")) is not None


def _kind(call: Record) -> str:
    attributes = obj(readable(call.get("attributes")))
    kind = word(obj(attributes.get("weave")).get("kind")) or word(attributes.get("kind")) or "op"
    return kind if kind != "llm" else "op"


def _name(call: Record) -> str:
    """The name shown for a call, else its op's: the last of the reference without its version."""
    op = word(call.get("op_name")) or "call"
    if op.startswith(_REF):
        op = op.rpartition("/")[2].rpartition(":")[0] or op
    return word(call.get("display_name")) or op


def _raw(call: Record, kind: str) -> RawSpan | None:
    name = word(call.get("id"))
    if name is None:
        return None
    start, end = ns(call.get("started_at")), ns(call.get("ended_at"))
    return RawSpan(
        trace=word(call.get("trace_id")) or name,
        id=name,
        parent=word(call.get("parent_id")),
        name=_name(call),
        start_ns=start,
        end_ns=ended(start, end),
        status=_status(call, end),
        message=word(call.get("exception")),
        attributes=_attributes(call, kind),
    )


def _status(call: Record, end: int | None) -> Status:
    """An error is the call's own; that one below it failed is told by that one."""
    if call.get("exception"):
        return "error"
    return "ok" if end is not None else "unset"


def _attributes(call: Record, kind: str) -> dict[str, Json]:
    inputs, missing = _resolved(readable(call.get("inputs")))
    outputs = _resolved(readable(call.get("output")))[0]
    about = known(
        **{
            "weave.unresolved": missing,
            "weave.attributes": _own(call.get("attributes")),
            "weave.turn": word(call.get("turn_id")),
        }
    )
    if kind == "llm":
        return {attributes.OPERATION: "chat", **about, **_model(call, inputs, outputs)}
    if kind == "tool":
        return {**tool(_name(call), inputs, outputs), **about}
    return {_KIND: kind, **about, **present(**{"input.value": inputs, "output.value": outputs})}


def _own(attributes: Json) -> dict[str, Json]:
    return {name: value for name, value in obj(readable(attributes)).items() if name != "weave"}


def _resolved(inputs: Json) -> tuple[Json, list[str]]:
    """A value without the references at its top, and the names these had."""
    if isinstance(inputs, dict):
        missing = [n for n, v in inputs.items() if isinstance(v, str) and v.startswith("weave://")]
        return {n: v for n, v in inputs.items() if n not in missing}, missing
    if isinstance(inputs, str) and inputs.startswith(_REF):
        return None, ["output"]
    return inputs, []


def _model(call: Record, inputs: Json, outputs: Json) -> dict[str, Json]:
    found = has_text(inputs, outputs)
    by_model = _usage(call)
    model = word(obj(inputs).get("model")) or next(iter(by_model), None)
    found |= present(**{"gen_ai.request.model": model})
    used = obj(outputs).get("usage")
    counts = figures(used) or figures(by_model[next(iter(by_model))] if by_model else None)
    return found | counts | present(**{"gen_ai.usage.cost": _cost(call)})


def _cost(call: Record) -> float | None:
    """What the service priced the call at."""
    costs = obj(obj(obj(readable(call.get("summary"))).get("weave")).get("costs"))
    parts = [
        part
        for each in map(obj, costs.values())
        for name, value in each.items()
        if name.endswith("_total_cost") and (part := usd(value)) is not None
    ]
    return sum(parts) if parts else None


def _scores(call: Record, root: Record) -> Iterator[SourceScore]:
    """Feedback on a call, where it was exported with it; the root's is the whole run's."""
    told = obj(obj(readable(call.get("summary"))).get("weave")).get("feedback")
    for each in map(obj, listed(told)):
        payload = obj(each.get("payload"))
        value = payload.get("output", payload.get("value"))
        label = payload.get("emoji", payload.get("note", value))
        kind = (word(each.get("feedback_type")) or "feedback").removeprefix("wandb.")
        yield SourceScore(
            name=kind,
            by=word(each.get("creator")) or word(each.get("wb_user_id")) or "feedback",
            span=None if call is root else word(call.get("id")),
            value=number(value),
            label=label if isinstance(label, str) else None,
            explanation=word(payload.get("comment")) or word(payload.get("reason")),
        )
