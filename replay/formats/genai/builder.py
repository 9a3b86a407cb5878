"""The spans of one trace put together: each kind to its own, tools to the calls that asked.

A span that tells of a model call which another span tells of already is no call. `Pairs` finds the
call that a tool span ran: by the call's id within its thread, else by the tool's name. A call that
no span ran is known by what the model said and was answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    RESULT,
    TOOL,
    Kind,
    Known,
    first_word,
    operation_of,
)
from replay.formats.genai.calls import Before, Conversations, talk
from replay.formats.genai.messages import answer_written, calls_written, words
from replay.formats.genai.reconcile import tool_key
from replay.formats.genai.records import RawSpan, grown, parsed
from replay.formats.source import Tally
from replay.memory import LARGE_BYTES, give_back
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
    Span,
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
        self._last: ModelCall | None = None
        self._by_id: dict[tuple[str | None, str], list[PendingCall]] = {}
        self._by_name: dict[str, list[PendingCall]] = {}
        self._said: dict[tuple[str, str], ModelCall] = {}

    def add_model_call(self, thread: str, call: ModelCall) -> None:
        """A model call, and what its message asks for."""
        self.latest[thread] = self._last = call
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
            for written in calls_written(message) if asker is not None else ():
                assert asker is not None
                known = self._called(thread, written.call_id)
                if not known or known[0].asker is not asker:
                    call = Call(id=written.call_id, name=written.name, arguments=written.arguments)
                    self._want(thread, asker, call)
            answer = answer_written(message)
            if answer is not None:
                self._answer(thread, answer.call_id, message, answer.error)

    def run(
        self, thread: str, call_id: str | None, name: str, arguments: Json, slot: int
    ) -> PendingCall | None:
        """The call that a tool span ran, None where no model call is known to have asked.

        The latest of its id that was not run yet; else the latest of its name and arguments in any
        thread; else the first of its name that the latest model call asked for, of the thread or of
        all.
        """
        known = self._called(thread, call_id) if call_id is not None else []
        found = next((each for each in known if each.slot is None), None)
        found = found or self._alike(name, arguments) or self._by_name_alone(thread, name)
        if found is not None:
            found.slot = slot
        return found

    def _alike(self, name: str, arguments: Json) -> PendingCall | None:
        """The first call of the latest model call that asked for this tool with these
        arguments."""
        if arguments is None:
            return None
        same = [each for each in self._open(name) if _alike(each.call.arguments, arguments)]
        return next((each for each in same if each.asker is same[-1].asker), None)

    def _by_name_alone(self, thread: str, name: str) -> PendingCall | None:
        askers = (self.latest.get(thread), self._last)
        found = self._open(name)
        return next((each for asker in askers for each in found if each.asker is asker), None)

    def _open(self, name: str) -> list[PendingCall]:
        """The calls of a tool that no span ran yet, in the order they were asked for."""
        key = tool_key(name)
        found = [each for each in self._by_name.get(key, ()) if each.slot is None]
        if key in self._by_name:
            self._by_name[key] = found
        return found

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
        self._by_name.setdefault(tool_key(call.name), []).append(wanted)
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
        """Some sources give all calls of a tool one id: the results come in the order asked."""
        known = self._called(thread, call_id) if call_id is not None else []
        asked = [each for each in reversed(known) if each.asker is known[0].asker]
        wanted = next((each for each in asked if each.answer is None), None)
        if wanted is not None:
            wanted.answer, wanted.error = message, error


def _alike(asked: Json, given: Json) -> bool:
    """Are these the arguments asked for? Some frameworks wrap them, some give a lone one bare."""
    if given in (asked, {"input": asked}) or obj(given).get("input") == asked:
        return True
    alone = [*obj(asked).values()]
    return len(alone) == 1 and not isinstance(given, dict) and str(alone[0]) == str(given)


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
        self._spans: list[AnySpan] = []
        self._conversations = Conversations()
        self._toolsets = model_calls.Toolsets()
        self._pairs = Pairs()
        self._beside: dict[str | None, ModelCall] = {}
        self._answered: dict[str, ModelCall] = {}
        free = 0
        for span in sorted(found, key=_in_time):
            try:
                self._put(span)
            except RecursionError:
                tally.problem(f"span {span.raw.id}", TOO_DEEP)
            if span.kind is Kind.MODEL and span.raw.parent in parents:  # a root's is the title
                free += _forget_input(span)
                if free > LARGE_BYTES:
                    give_back()
                    free = 0

    def spans(self) -> tuple[AnySpan, ...]:
        """The spans in time order; a call that was only told of stands after those of the tree."""
        self._pairs.settle(self._spans)
        self._stop_for_tools()
        self._join_turns()
        return tuple(self._spans)

    def _stop_for_tools(self) -> None:
        """Some wires have no word for it: a call whose message was not recorded, and that ended,
        stopped for the tools that it is known to have asked for."""
        askers = {span.asked_by for span in self._spans if isinstance(span, ToolCall)}
        for at, span in enumerate(self._spans):
            if not isinstance(span, ModelCall) or span.id not in askers:
                continue
            if span.response.stop == "end" and span.response.message is None:
                response = structs.replace(span.response, stop="tool")
                self._spans[at] = structs.replace(span, response=response)

    def _join_turns(self) -> None:
        """A graph runs the node that asks the model anew for each turn: agent spans of one name
        below one parent, each of one call that goes on with the conversation of the one before,
        are turns of one agent."""
        calls_of: dict[str, list[ModelCall]] = {}
        for span in self._spans:
            if isinstance(span, ModelCall):
                calls_of.setdefault(self._threads.at(span.parent), []).append(span)
        turns: dict[tuple[str | None, str], list[AgentSpan]] = {}
        for span in self._spans:
            if isinstance(span, AgentSpan) and span.id in calls_of:
                turns.setdefault((span.parent, span.name), []).append(span)
        joined: set[str] = set()
        for several in turns.values():
            made = [calls_of[span.id] for span in several]
            if {len(each) for each in made} == {1} and _go_on([each[0] for each in made]):
                joined.update(span.id for span in several)
        if joined:
            self._spans = [_turn(span) if span.id in joined else span for span in self._spans]

    def _put(self, span: Known) -> None:
        for name in span.given.new:
            self._tally.unknown[f"attribute {name}"] += 1
        if span.same_as is not None:
            self._spans.append(_repeats(span, span.same_as))
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
        arguments, written = _arguments(span)
        wanted = self._pairs.run(thread, call_id, name, arguments, len(self._spans))
        if wanted is not None:
            asker: ModelCall | None = wanted.asker
            arguments, written = wanted.call.arguments, wanted.call.raw
        else:
            asker = self._neighbour(span.raw) or self._names(thread, name)
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
            return beside if _may_ask_for_tools(beside) else None
        return None if calls(message) else beside

    def _names(self, thread: str, name: str) -> ModelCall | None:
        """The thread's latest model call, where it asks for the tool in the words of its answer."""
        latest = self._pairs.latest.get(thread)
        message = latest.response.message if latest is not None else None
        if message is None or calls(message):
            return None
        return latest if f"_{tool_key(name)}_" in f"_{tool_key(text(message))}_" else None


def _may_ask_for_tools(call: ModelCall) -> bool:
    """Does the stop reason of a call whose message was not recorded allow for calls of tools?
    Gemini and the Responses API have no word of their own for that."""
    model = call.response.model or call.request.model or ""
    wordless = model.startswith("gemini") or call.response.stop_raw == "completed"
    return call.response.stop == "tool" or (wordless and call.response.stop == "end")


def _forget_input(span: Known) -> int:
    """Drop what a model was asked, which its messages say now; gives its length where it is a text.
    Of a long run that goes on with the same conversation nearly all that is held is this."""
    given = span.raw.attributes.pop(INPUT, None)
    span.given.of.pop(GIVEN, None)
    return len(given) if isinstance(given, str) else 0


def _go_on(made: list[ModelCall]) -> bool:
    return len(made) > 1 and all(_goes_on(one, other) for one, other in pairwise(made))


def _goes_on(before: ModelCall, after: ModelCall) -> bool:
    """Was the later call shown all that the earlier one was, and more?"""
    shown, now = before.request.context, after.request.context
    while now is not None and shown is not None and now.depth > shown.depth:
        now = now.parent
        if now is shown:
            return True
    return False


def _turn(span: AnySpan) -> OtherSpan:
    """The span of an agent's turn, which is no agent of its own."""
    fields = {name: getattr(span, name) for name in Span.__struct_fields__}
    return OtherSpan(**fields, operation="turn")


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


_TRACEBACK = "Traceback (most recent call last)"


def _error(raw: RawSpan) -> str:
    """Why a failed span failed: its status, else the exception it saw, else the kind of it. The
    stack that some clients put behind it is left out."""
    given = (word(event.attributes.get("exception.message")) for event in raw.events)
    said = raw.message or next((each for each in given if each is not None), None)
    said = said or first_word(raw.attributes, ("error", "error.type")) or "error"
    return said.partition(_TRACEBACK)[0].strip() or said


def _extra(span: Known) -> dict[str, Json]:
    """What an agent or another span was given and gave, and what no field of ours holds."""
    given, gave = span.of(GIVEN), span.of(GAVE)
    return known(input=given, output=gave, **model_calls.rest(span))


def _other(span: Known, **more: Json) -> OtherSpan:
    extra = {**_extra(span), **more}
    return OtherSpan(**_fields(span), operation=operation_of(span.raw), extra=extra)


def _repeats(span: Known, same_as: str) -> OtherSpan:
    """A span of a call that another one tells of: what it says of it is said there."""
    extra: dict[str, Json] = {"same_as": same_as}
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


_METHOD = re.compile(r"\.(__call__|_?a?(call|run|invoke|use|execute))$")


def _tool_name(span: Known) -> str:
    """The tool's name; a span may only have it in its own, with the method that ran it."""
    named = span.raw.name.removeprefix("execute_tool ")
    return span.word(TOOL) or _METHOD.sub("", named) or "tool"


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
