"""The spans of one trace, from its records in the words of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from replay.depth import TOO_DEEP, is_deep
from replay.formats.chat import cut, user_label
from replay.formats.fields import listed, obj
from replay.formats.intake import Tally
from replay.formats.openinference.attributes import parsed
from replay.formats.otlp import names
from replay.formats.otlp.contexts import message_of
from replay.formats.otlp.kinds import Kind
from replay.formats.otlp.messages import several
from replay.formats.otlp.records import Raw
from replay.formats.otlp.spans import Known, known_of
from replay.formats.otlp.tree import Builder, count_spans
from replay.formats.services.spoken import request_of, tool
from replay.messages import Call, calls
from replay.trace import AgentSpan, AnySpan, Json, ModelCall

_TASK = ("question", "query", "task", "prompt", "q", "input", "text", "content")


def spans(raws: Iterable[Raw], tally: Tally) -> tuple[AnySpan, ...]:
    """The spans of a trace, each id once; they are counted in the tally."""
    by_id: dict[str, Raw] = {}
    for raw in raws:
        if by_id.setdefault(raw.id, raw) is not raw:
            tally.problem(f"span {raw.id}", "stands in the file twice; it is read once")
    found = _with_tools([known_of(raw) for raw in by_id.values()])
    made = Builder(found, tally).spans()
    tally.counts["traces"] += 1
    tally.counts["spans"] += len(found)
    count_spans(made, tally)
    return made


def _with_tools(found: list[Known]) -> list[Known]:
    """With tools told by what models called: a span of no kind of its own that bears the name of
    a tool is one; one without the id of its call has that of the first call, not run yet, of the
    same name and arguments."""
    waiting: dict[str, list[Call]] = {}
    for each in sorted(found, key=lambda each: each.raw.start_ns or 0):
        for call in _called(each.raw):
            waiting.setdefault(call.name, []).append(call)
    if waiting:
        for at, each in enumerate(found):
            name = each.raw.name.removeprefix("tool.")
            if each.kind is Kind.OTHER and name in waiting:
                made = tool(name, each.of(names.GIVEN), each.of(names.GAVE))
                each.raw.attributes = {**each.raw.attributes, **made}
                found[at] = known_of(each.raw)
        tools = [at for at, each in enumerate(found) if each.kind is Kind.TOOL]
        for at in sorted(tools, key=lambda at: found[at].raw.start_ns or 0):
            found[at] = _with_id(found[at], waiting)
    return found


def _with_id(span: Known, waiting: dict[str, list[Call]]) -> Known:
    """A span of a tool with the id of the call it ran; one that no call has is a framework's
    own."""
    asked = waiting.get(span.word(names.TOOL) or span.raw.name, [])
    own, given = span.word(names.CALL), parsed(span.of(names.ARGUMENTS))
    wanted = (given, obj(given).get("input"))
    same = [call for call in asked if own is not None and call.id == own]
    same = same or [call for call in asked if call.arguments in wanted]
    if not same:
        return span
    asked.remove(same[0])
    if same[0].id in (None, own):
        return span
    attributes = {n: v for n, v in span.raw.attributes.items() if n not in names.CALL.names}
    span.raw.attributes = {**attributes, names.CALL.names[0]: same[0].id}
    return known_of(span.raw)


def _called(raw: Raw) -> list[Call]:
    """The calls in a model's answer."""
    bodies = several(listed(raw.attributes.get(names.OUTPUT)), "assistant")
    return [call for body in bodies for call in calls(message_of(body))]


def made_of(record: dict[str, Any], where: str, make: Any, tally: Tally) -> Iterator[Raw]:
    """The span that `make` takes a record for; a problem where it is none or nested too deeply."""
    try:
        raw = make(record)
    except RecursionError:
        tally.problem(where, TOO_DEEP)
        return
    if raw is None:
        tally.problem(where, "has no id")
    elif is_deep(raw.attributes):
        tally.problem(where, TOO_DEEP)
    else:
        yield raw


def agent_of(found: tuple[AnySpan, ...]) -> str | None:
    return next((span.name for span in found if isinstance(span, AgentSpan)), None)


def title_of(found: tuple[AnySpan, ...], given: Json, otherwise: str | None) -> str | None:
    """The first line of what the run was asked: in what it was `given`, else what the first model
    call was told; else another name for it."""
    task = _task(given)
    if task is not None:
        return task
    for span in found:
        if isinstance(span, ModelCall) and span.request.context is not None:
            title = user_label([message.body for message in span.request.context.messages()])
            if title is not None:
                return title
    return cut(otherwise) if otherwise else None


def _task(given: Json) -> str | None:
    if isinstance(given, dict):
        said = next((given[n] for n in _TASK if isinstance(given.get(n), str) and given[n]), None)
        if said is not None:
            return user_label([{"role": "user", "content": said}])
    if not isinstance(given, (dict, list, str)) or not given:
        return None
    request = request_of(given)
    return user_label(several(request.messages)) if request is not None else None


def root_of(raws: list[Raw]) -> Raw | None:
    """The first span in time that hangs below none of the others."""
    ids = {raw.id for raw in raws}
    roots = [raw for raw in raws if raw.parent not in ids]
    return min(roots, key=lambda raw: raw.start_ns or 2**63, default=None)
