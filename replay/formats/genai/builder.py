"""The spans of one trace put together: each kind to its own, tools to the calls that asked.

A span that tells of a model call which another span tells of already is no call. `Pairs` finds the
call that a tool span ran: by the call's id within its thread, else by the tool's name. A call that
no span ran is known by what the model said and was answered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any

from msgspec import Struct, structs

from replay.depth import TOO_DEEP
from replay.formats.common import derived_id, known, listed, obj, word
from replay.formats.genai import calls as model_calls
from replay.formats.genai.attributes import (
    AGENT,
    ARGUMENTS,
    CALL,
    GAVE,
    GIVEN,
    INPUT,
    PREVIOUS,
    RESPONSE,
    RESULT,
    TOOL,
    Kind,
    Known,
    first_word,
    operation_of,
)
from replay.formats.genai.calls import Before, Conversations, talk
from replay.formats.genai.messages import answer_written, calls_written, words
from replay.formats.genai.records import SERVER, RawSpan, grown, parsed
from replay.formats.source import Tally
from replay.messages import Call, calls, parse_arguments, results, text
from replay.steps import Threads
from replay.trace import (
    AgentSpan,
    AnySpan,
    Json,
    Message,
    ModelCall,
    Observation,
    OtherSpan,
    Place,
    Retrieval,
    TimeQuality,
    ToolCall,
)


class PendingCall(Struct):
    """A tool call as its parts turn up; `slot` is the place of the span that ran it."""

    asker: ModelCall
    call: Call
    slot: int | None = None
    answer: Message | None = None
    error: str | None = None

    @property
    def observation(self) -> Observation | None:
        return Observation(message=self.answer) if self.answer is not None else None


class Pairs:
    """The tool calls of one trace, told in time order; `wanted` in the order they were asked for.

    A thread is an agent's; a call may be answered in another thread than asked (a handoff).
    """

    def __init__(self) -> None:
        self.wanted: list[PendingCall] = []
        self.latest: dict[str, ModelCall] = {}
        self._by_id: dict[tuple[str | None, str], list[PendingCall]] = {}
        self._said: dict[tuple[str, str], ModelCall] = {}

    def add_model_call(self, thread: str, call: ModelCall) -> None:
        """A model call, and what its message asks for."""
        self.latest[thread] = call
        message = call.response.message
        if message is not None:
            self._said[thread, text(message)] = call
            for each in calls(message):
                self._want(thread, call, each)

    def add_message(self, thread: str, messages: tuple[Message, ...]) -> None:
        """What a model call was shown that none before it was: it may answer calls, or tell of
        calls, made by the model call whose words stand before them."""
        asker = self.latest.get(thread)
        for message in messages:
            if message.role == "assistant":
                asker = self._said.get((thread, text(message)), asker)
            for result in results(message):
                error = result.text if result.is_error else None
                self._answer(thread, result.call_id, message, error)
            for told in calls_written(message) if asker is not None else ():
                assert asker is not None
                call = Call(id=told.call_id, name=told.name, arguments=told.arguments)
                self._want(thread, asker, call)
            answer = answer_written(message)
            if answer is not None:
                self._answer(thread, answer.call_id, message, answer.error)

    def run(self, thread: str, call_id: str | None, name: str, slot: int) -> PendingCall | None:
        """The call that a tool span ran, None where no model call is known to have asked.

        The latest of its id; where the span has none, the first of its name that the thread's
        latest model call asked for.
        """
        if call_id is not None:
            found = [each for each in self._called(thread, call_id) if each.slot is None]
        else:
            latest = self.latest.get(thread)
            open_ = (each for each in self.wanted if each.asker is latest and each.slot is None)
            found = [each for each in open_ if each.call.name == name]
        if not found:
            return None
        found[0].slot = slot
        return found[0]

    def settle(self, spans: list[AnySpan]) -> None:
        """Give each call its answer; one that no span ran becomes a span at the end."""
        for wanted in self.wanted:
            if wanted.slot is None:
                spans.append(told_of(wanted))
            elif wanted.observation is not None:
                span = spans[wanted.slot]
                assert isinstance(span, ToolCall)
                spans[wanted.slot] = structs.replace(span, observation=wanted.observation)
        self.wanted.clear()

    def _want(self, thread: str, asker: ModelCall, call: Call) -> None:
        wanted = PendingCall(asker=asker, call=call)
        self.wanted.append(wanted)
        if call.id is not None:
            for key in ((thread, call.id), (None, call.id)):
                self._by_id.setdefault(key, []).append(wanted)

    def _called(self, thread: str, call_id: str) -> list[PendingCall]:
        """The calls of that id, latest first: the thread's own, else those of any."""
        found = self._by_id.get((thread, call_id)) or self._by_id.get((None, call_id), [])
        return found[::-1]

    def _answer(
        self, thread: str, call_id: str | None, message: Message, error: str | None
    ) -> None:
        known = self._called(thread, call_id) if call_id is not None else []
        if known and known[0].answer is None:
            known[0].answer, known[0].error = message, error


def told_of(wanted: PendingCall) -> ToolCall:
    """A call without a span: what the model asked for and was answered."""
    asker, call, observation = wanted.asker, wanted.call, wanted.observation
    ran = observation is not None
    return ToolCall(
        id=derived_id(asker.id, call.position, call.id, call.name),
        name=call.name,
        parent=asker.parent,
        start_ns=asker.end_ns,
        time_quality="derived" if asker.end_ns is not None else "none",
        status="unset" if not ran else "error" if wanted.error is not None else "ok",
        error=wanted.error,
        place=asker.place,
        call_id=call.id,
        asked_by=asker.id,
        arguments=call.arguments,
        arguments_raw=call.raw,
        observation=observation,
    )


MAIN = ""
"""The thread of spans that stand below no agent."""


class Builder:
    """Builds the spans of a trace from its records, which have ids of their own."""

    def __init__(self, found: list[Known], tally: Tally) -> None:
        self._tally = tally
        parents = {span.raw.id: span.raw.parent for span in found}
        agents = {span.raw.id for span in found if span.kind is Kind.AGENT}
        self._threads = Threads(parents, agents, MAIN)
        self._same = repeated(found)
        self._spans: list[AnySpan] = []
        self._conversations = Conversations()
        self._toolsets = model_calls.Toolsets()
        self._pairs = Pairs()
        self._beside: dict[str | None, ModelCall] = {}
        self._answered: dict[str, ModelCall] = {}
        for span in sorted(found, key=_in_time):
            try:
                self._put(span)
            except RecursionError:
                tally.problem(f"span {span.raw.id}", TOO_DEEP)

    def spans(self) -> tuple[AnySpan, ...]:
        """The spans in time order; a call that was only told of stands after those of the tree."""
        self._pairs.settle(self._spans)
        return tuple(self._spans)

    def _put(self, span: Known) -> None:
        for name in span.given.new:
            self._tally.unknown[f"attribute {name}"] += 1
        if span.raw.id in self._same:
            self._spans.append(_other(span, same_as=self._same[span.raw.id]))
        elif span.kind is Kind.MODEL:
            self._model(span)
        elif span.kind is Kind.TOOL:
            self._tool(span)
        elif span.kind is Kind.AGENT:
            name = span.word(AGENT) or span.raw.name or "agent"
            self._spans.append(AgentSpan(**_fields(span, name), extra=_extra(span)))
        elif span.kind is Kind.RETRIEVER:
            self._spans.append(_retrieval(span))
        else:
            self._spans.append(_other(span))

    def _model(self, span: Known) -> None:
        raw = span.raw
        thread = self._threads.at(raw.parent)
        named = first_word(raw.attributes, (PREVIOUS,))
        before = Before(self._pairs.latest.get(thread), self._answered.get(named or ""))
        said = talk(raw, self._conversations, before)
        shown = said.shown
        self._pairs.add_message(thread, shown.fresh)
        tools = self._toolsets.of(span)
        if tools is None and shown.opening is not None:
            tools = shown.opening.request.tools
        request = structs.replace(
            model_calls.request(span, tools), system=shown.system, context=shown.context
        )
        call = ModelCall(
            **_fields(span),
            request=request,
            response=model_calls.response(span, said.answer, said.why),
            usage=model_calls.usage(span),
            cost=model_calls.cost(span),
            fidelity=model_calls.fidelity(
                request,
                joined=shown.opening is not None,
                cut=shown.cut,
                dropped=raw.cut and said.spread,
            ),
            extra=model_calls.rest(span),
        )
        self._spans.append(call)
        self._beside[raw.parent] = call
        if call.response.id is not None:
            self._answered[call.response.id] = call
        self._pairs.add_model_call(thread, call)

    def _tool(self, span: Known) -> None:
        call_id = span.word(CALL)
        name = _tool_name(span)
        thread = self._threads.at(span.raw.parent)
        wanted = self._pairs.run(thread, call_id, name, len(self._spans))
        if wanted is not None:
            asker: ModelCall | None = wanted.asker
            arguments, written = wanted.call.arguments, wanted.call.raw
        else:
            asker = self._neighbour(span.raw)
            arguments, written = _arguments(span)
        made = ToolCall(
            **_fields(span, name),
            call_id=call_id or (wanted.call.id if wanted is not None else None),
            asked_by=asker.id if asker is not None else None,
            arguments=arguments,
            arguments_raw=written,
            observation=_observed(span, call_id, name),
            extra=model_calls.rest(span),
        )
        self._spans.append(made)

    def _neighbour(self, raw: RawSpan) -> ModelCall | None:
        """The model call before a tool span under one parent, where its message has no calls (it
        wrote code or prose that the framework acted on), or was not recorded and it ended for a
        tool to be called."""
        beside = self._beside.get(raw.parent)
        if beside is None:
            return None
        message = beside.response.message
        if message is None:
            return beside if beside.response.stop == "tool" else None
        return None if calls(message) else beside


def _in_time(span: Known) -> tuple[int, int]:
    """By start, and what lasts longer first: a parent before the child that began with it."""
    start, end = span.raw.start_ns, span.raw.end_ns
    return start if start is not None else end or -1, -(end or 2**63)


def _fields(span: Known, name: str | None = None) -> dict[str, Any]:
    """The fields every span has."""
    raw = span.raw
    quality: TimeQuality = "exact" if raw.start_ns is not None else "none"
    failed = raw.status == "error" or (raw.status == "unset" and "error.type" in raw.attributes)
    return {
        "id": raw.id,
        "parent": raw.parent,
        "name": name or raw.name or "span",
        "start_ns": raw.start_ns,
        "end_ns": raw.end_ns,
        "time_quality": "derived" if raw.logged else quality,
        "status": "error" if failed else raw.status,
        "error": _error(raw) if failed else None,
        "place": Place(span=raw.id),
    }


def _error(raw: RawSpan) -> str:
    """Why a failed span failed: its status, else the exception it saw, else the kind of it."""
    if raw.message:
        return raw.message
    given = (word(event.attributes.get("exception.message")) for event in raw.events)
    said = next((each for each in given if each is not None), None)
    return said or first_word(raw.attributes, ("error", "error.type")) or "error"


def _extra(span: Known) -> dict[str, Json]:
    """What an agent or another span was given and gave, and what no field of ours holds."""
    given, gave = span.of(GIVEN), span.of(GAVE)
    return known(input=given, output=gave, **model_calls.rest(span))


def _other(span: Known, **more: Json) -> OtherSpan:
    extra = {**_extra(span), **more}
    return OtherSpan(**_fields(span), operation=operation_of(span.raw), extra=extra)


def _retrieval(span: Known) -> Retrieval:
    given = span.raw.attributes
    query = given.get("gen_ai.retrieval.query.text", span.of(GIVEN))
    documents = parsed(given.get("gen_ai.retrieval.documents"))
    if documents is None:
        found = {n: v for n, v in given.items() if n.startswith("retrieval.documents")}
        documents = obj(grown(found).get("retrieval")).get("documents")
    extra = model_calls.rest(span)
    return Retrieval(**_fields(span), query=parsed(query), documents=documents, extra=extra)


def _tool_name(span: Known) -> str:
    """The tool's name; a span may only have it in its own."""
    return span.word(TOOL) or span.raw.name.removeprefix("execute_tool ") or "tool"


def _arguments(span: Known) -> tuple[Json, str | None]:
    """A tool span's own account of its arguments, and their text where it does not parse."""
    attributes = span.raw.attributes
    given = span.of(ARGUMENTS)
    if given is None:
        below = {n: v for n, v in attributes.items() if n.startswith("tool.parameters")}
        given = obj(grown(below).get("tool")).get("parameters")
    if given is None:
        return None, None
    value, written = parse_arguments(given)
    inner = obj(value)
    if "traceloop.entity.input" in attributes and inner.keys() & {"kwargs", "inputs"}:
        value = inner.get("kwargs") or inner.get("inputs") or value
    return value, written


def _observed(span: Known, call_id: str | None, name: str) -> Observation | None:
    """A tool span's own account of what came back."""
    shown = span.of(RESULT)
    if shown is None:
        return None
    blocks = listed(parsed(shown))
    texts = [obj(block).get("text") for block in blocks]
    if texts and all(isinstance(text, str) for text in texts):
        shown = "\n".join(map(str, texts))  # blocks of text alone
    body = {"role": "tool", "content": words(shown), **known(tool_call_id=call_id, name=name)}
    return Observation(message=Message(dialect="openai", body=body))


def count_spans(spans: Iterable[AnySpan], tally: Tally) -> None:
    """What an importer says of the spans it made: errors, model calls and their tokens."""
    for span in spans:
        tally.counts["errors"] += span.status == "error"
        if isinstance(span, ModelCall):
            tally.counts["model_calls"] += 1
            if span.usage is not None:
                tally.counts["input_tokens"] += span.usage.input_tokens or 0
                tally.counts["output_tokens"] += span.usage.output_tokens or 0


LEVELS = 32
"""How far apart two spans of one call may hang."""


def repeated(found: Collection[Known]) -> dict[str, str]:
    """The span that is kept for each one that repeats it."""
    by_id = {span.raw.id: span.raw for span in found}
    models = {span.raw.id: span for span in found if span.kind is Kind.MODEL}
    kept: dict[str, str] = {}
    for group in _groups(models, by_id):
        best = max(group, key=_worth)
        kept.update({raw.id: best.id for raw in group if raw is not best})
    return kept


def _groups(models: dict[str, Known], by_id: dict[str, RawSpan]) -> list[list[RawSpan]]:
    """Spans of one call, two and more together."""
    group_of: dict[str, list[RawSpan]] = {}
    by_response: dict[str, list[RawSpan]] = {}
    for span in models.values():
        raw, response = span.raw, span.word(RESPONSE)
        if response is not None:
            by_response.setdefault(response, []).append(raw)
        above = by_id.get(raw.parent or "")
        if raw.kind == SERVER and above is not None and above.id in models:
            _join(group_of, raw, above)
    for alike in by_response.values():
        for one, other in pairwise(alike):
            if _same(one, other, by_id):
                _join(group_of, one, other)
    several = {id(group): group for group in group_of.values() if len(group) > 1}
    return list(several.values())


def _join(group_of: dict[str, list[RawSpan]], one: RawSpan, other: RawSpan) -> None:
    into = group_of.setdefault(one.id, [one])
    from_ = group_of.setdefault(other.id, [other])
    if into is from_:
        return
    into += from_
    group_of.update({raw.id: into for raw in from_})


def _same(one: RawSpan, other: RawSpan, by_id: dict[str, RawSpan]) -> bool:
    """Do spans of one response lie in one another, or beside one another at the same time? One
    that was answered from a cache has the response too, but later."""
    if _is_above(one, other, by_id) or _is_above(other, one, by_id):
        return True
    if one.parent != other.parent or None in (one.start_ns, one.end_ns, other.start_ns):
        return False
    starts, ends = (one.start_ns or 0, other.start_ns or 0), (one.end_ns or 0, other.end_ns or 0)
    return max(starts) < min(ends)


def _is_above(one: RawSpan, other: RawSpan, by_id: dict[str, RawSpan]) -> bool:
    above = by_id.get(other.parent or "")
    for _ in range(LEVELS):
        if above is None or above is one:
            return above is one
        above = by_id.get(above.parent or "")
    return False


def _worth(raw: RawSpan) -> tuple[bool, bool, int]:
    """The one with the messages, the caller's before the server's, the one nearest the wire."""
    told = INPUT in raw.attributes or any(
        name.startswith(("gen_ai.prompt.", "llm.input_messages.")) for name in raw.attributes
    )
    return told, raw.kind != SERVER, raw.start_ns or 0
