"""One run of a log told as spans: its calls, the tool calls they asked for, its threads.

A tool runs between the answer that asked for it and the request that brings its result; what ran
it, and how long it took, is nowhere said: those times are derived.

Every request repeats its conversation, so what calls were shown is kept as chains: a message that
stood there before, after the same messages, is the node that it was, and is not decoded again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct, structs

from replay import digests
from replay.formats import common
from replay.formats.anthropic_log.exchanges import CUT_OFF, Exchange
from replay.formats.anthropic_log.runs import MAIN, Call, Run, digest, texts
from replay.formats.chat import title_line, tool
from replay.formats.common import known, obj, word
from replay.messages import Result, calls, results
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Context,
    Fidelity,
    Json,
    Level,
    Message,
    ModelCall,
    Observation,
    Place,
    Request,
    Response,
    Tool,
    ToolCall,
    extend,
)

NO_REQUEST = "request not recorded"
NO_EARLIER = "earlier messages of the thread not recorded"
NO_MESSAGES = "messages of the request not readable"

ROOT = "agent"
BRANCH = "branch"
SUB_AGENT = "sub-agent"
SIDE = "side conversation"


class _Thread(Struct, kw_only=True):
    """A thread while its calls are told: where its span stands and what it spans."""

    at: int
    start_ns: int | None = None
    end_ns: int | None = None

    def spans(self, span: ModelCall) -> None:
        times = [each for each in (span.start_ns, span.end_ns) if each is not None]
        self.start_ns = min([*times, *_known(self.start_ns)], default=None)
        self.end_ns = max([*times, *_known(self.end_ns)], default=None)


def _known(time: int | None) -> tuple[int, ...]:
    return () if time is None else (time,)


class SpanBuilder:
    """The spans of one run, told call by call."""

    def __init__(self, run: Run, *, by_line: bool) -> None:
        self.title: str | None = None
        self._run = run
        self._by_line = by_line
        self._contexts = Contexts()
        self._requests: dict[int, tuple[Request, Message | None]] = {}
        self._spans: list[AnySpan] = []
        self._threads: dict[int, _Thread] = {}
        self._open: dict[int, list[int]] = {}
        self._tools: dict[tuple[int, int], int] = {}
        self._begin(MAIN, AgentSpan(id=run.source_id, name=ROOT))

    def build(self, call: Call, exchange: Exchange) -> None:
        """The next call of the run."""
        thread = self._run.threads[call.index]
        if thread not in self._threads:
            self._begin(thread, self._agent(call))
        request = self._request(call, exchange)
        self._answer(call, exchange, request.context)
        span = self._model(call, exchange, request, self._spans[self._threads[thread].at].id)
        self._spans.append(span)
        self._threads[thread].spans(span)
        self._threads[MAIN].spans(span)
        self._requests[call.index] = (request, span.response.message)
        if self.title is None and request.context is not None:
            self.title = _title(request.context)
        self._ask(call, span)

    def spans(self) -> tuple[AnySpan, ...]:
        for thread in self._threads.values():
            self._spans[thread.at] = structs.replace(
                self._spans[thread.at],
                start_ns=thread.start_ns,
                end_ns=thread.end_ns,
                time_quality="derived" if thread.start_ns is not None else "none",
            )
        return tuple(self._spans)

    @property
    def times(self) -> tuple[int | None, int | None]:
        return self._threads[MAIN].start_ns, self._threads[MAIN].end_ns

    def _begin(self, thread: int, span: AgentSpan) -> None:
        self._threads[thread] = _Thread(at=len(self._spans))
        self._spans.append(span)

    def _agent(self, call: Call) -> AgentSpan:
        """The span of a thread that begins with this call."""
        root = self._run.source_id
        place = self._place(call)
        sent = self._tools.get(call.sent_by) if call.sent_by is not None else None
        tool = self._spans[sent] if sent is not None else None
        if isinstance(tool, ToolCall):
            given = obj(tool.arguments)
            return AgentSpan(
                id=common.derived_id(root, SUB_AGENT, call.name),
                name=word(given.get("subagent_type")) or SUB_AGENT,
                parent=tool.id,
                place=place,
                extra=known(description=word(given.get("description"))),
            )
        above = self._run.threads.get(call.parent) if call.parent is not None else None
        name = SIDE if above is None else BRANCH
        parent = self._spans[self._threads[above].at].id if above in self._threads else root
        return AgentSpan(
            id=common.derived_id(root, name, call.name), name=name, parent=parent, place=place
        )

    def _place(self, call: Call) -> Place:
        return Place(span=call.name, line=call.number if self._by_line else None)

    def _request(self, call: Call, exchange: Exchange) -> Request:
        if call.how == "thread" and call.parent is not None and call.parent in self._requests:
            return self._contexts.request(exchange, *self._requests[call.parent])
        return self._contexts.request(exchange, None, None)

    def _model(self, call: Call, exchange: Exchange, request: Request, parent: str) -> ModelCall:
        answer = exchange.answer
        raw = answer.message or {}
        error = answer.error or (CUT_OFF if answer.cut else None)
        stop = word(raw.get("stop_reason"))
        message = None
        if answer.message is not None:
            body = {"role": "assistant", "content": raw.get("content")}
            message = Message(dialect="anthropic", body=body)
        return ModelCall(
            id=call.name,
            name="chat",
            parent=parent,
            start_ns=exchange.start_ns,
            end_ns=exchange.end_ns,
            time_quality="none" if exchange.end_ns is None else "exact",
            status="error" if error else "ok" if message is not None else "unset",
            error=error,
            place=self._place(call),
            extra=_extra(call, exchange),
            request=request,
            response=Response(
                message=message,
                id=exchange.answer_id,
                model=word(raw.get("model")),
                stop="error" if error else common.stop(stop, message),
                stop_raw=stop,
            ),
            usage=common.anthropic_usage(raw.get("usage")),
            fidelity=_fidelity(call, exchange, request),
        )

    def _ask(self, call: Call, span: ModelCall) -> None:
        """The tool calls of an answer, open until a request brings their results."""
        message = span.response.message
        for asked in calls(message) if message is not None else ():
            self._tools[call.index, asked.position] = len(self._spans)
            self._open.setdefault(call.index, []).append(len(self._spans))
            self._spans.append(
                ToolCall(
                    id=common.derived_id(span.id, asked.position, asked.name),
                    name=asked.name,
                    parent=span.parent,
                    start_ns=span.end_ns,
                    time_quality="none" if span.end_ns is None else "derived",
                    place=span.place,
                    call_id=asked.id,
                    asked_by=span.id,
                    arguments=asked.arguments,
                    arguments_raw=asked.raw,
                )
            )

    def _answer(self, call: Call, exchange: Exchange, context: Context | None) -> None:
        """Give the calls of the one before the results that this request brings."""
        waiting = self._open.get(call.parent, []) if call.parent is not None else []
        if not waiting:
            return
        for message, result in _brought(context):
            at = next((at for at in waiting if _called(self._spans[at], result)), None)
            if at is None:
                continue
            waiting.remove(at)
            self._spans[at] = structs.replace(
                self._spans[at],
                observation=Observation(message=message, block=result.block),
                end_ns=exchange.start_ns,
                status="error" if result.is_error else "ok",
                error=result.text if result.is_error else None,
            )


def _called(span: AnySpan, result: Result) -> bool:
    return isinstance(span, ToolCall) and span.call_id == result.call_id


def _brought(context: Context | None) -> Iterator[tuple[Message, Result]]:
    """The results at the end of a conversation, behind the model's last words."""
    behind: list[Message] = []
    while context is not None and context.message.role != "assistant":
        behind.append(context.message)
        context = context.parent
    for message in reversed(behind):
        for result in results(message):
            yield message, result


def _fidelity(call: Call, exchange: Exchange, request: Request) -> Fidelity:
    if exchange.request is None:
        return Fidelity(level=Level.NONE, reasons=(NO_REQUEST,))
    if call.how == "thread" and call.parent is not None:
        return Fidelity(level=Level.REBUILT)
    reasons = []
    if call.how == "thread":
        reasons = [NO_EARLIER]
        reasons += [NO_SYSTEM] if request.system is None else []
        reasons += [NO_TOOLS] if "tools" not in exchange.request else []
    elif not exchange.messages:
        reasons = [NO_MESSAGES]
    return Fidelity(level=Level.PARTIAL if reasons else Level.EXACT, reasons=tuple(reasons))


def _extra(call: Call, exchange: Exchange) -> dict[str, Json]:
    """What else the record says of a call: ids, the status, why it stopped, what the cache did."""
    raw = exchange.answer.message or {}
    speed = word(obj(raw.get("usage")).get("speed"))
    return known(
        request_id=exchange.request_id,
        status_code=exchange.answer.status_code if exchange.answer.status_code != 200 else None,
        note=exchange.note,
        retry=True if call.how == "retry" else None,
        stop_details=raw.get("stop_details"),
        diagnostics=raw.get("diagnostics"),
        context_management=raw.get("context_management"),
        speed=speed if speed != "standard" else None,
    )


def _title(context: Context) -> str | None:
    """What the user first wrote; a harness puts its own words in tags before it."""
    for message in context.messages():
        if message.role != "user":
            continue
        for text in texts(message.body):
            words = text.strip()
            if words and not words.startswith("<"):
                return title_line(words)
    return None


_APART = {"messages", "metadata", "model", "system", "tools", "thread"}
"""Fields of a body that are no parameters; `metadata` names the person who asked."""


class Contexts:
    """Makes requests of one run, in the order of the log."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], Context] = {}
        self._seen: dict[bytes, tuple[bytes, Message]] = {}
        self._systems: dict[bytes, Message] = {}
        self._toolsets: dict[bytes, tuple[Tool, ...]] = {}

    def request(
        self, exchange: Exchange, before: Request | None, answer: Message | None
    ) -> Request:
        """The request of a call. In a message thread `before` is the request that it goes on from
        and `answer` what that came to; what it leaves out is as it was there."""
        context = before.context if before is not None else None
        if context is not None and answer is not None:
            context = extend(context, (answer,))
        for raw in exchange.messages:
            context = self._after(context, raw)
        asked = exchange.request or {}
        model = word(exchange.part("model")) or exchange.url_model
        if model is None and before is not None:
            model = before.model
        system, tools = self._system(exchange), self._tools(exchange)
        return Request(
            model=model,
            system=system if system is not None or before is None else before.system,
            tools=tools if "tools" in asked or before is None else before.tools,
            params=known(**{name: exchange.part(name) for name in asked if name not in _APART}),
            context=context,
        )

    def _after(self, context: Context | None, raw: msgspec.Raw) -> Context:
        """The node of a message after a context. Cache markers move from turn to turn, and a
        message with one is the same message."""
        key = digest(raw)
        if key not in self._seen:
            body = msgspec.json.decode(raw)
            message = Message(dialect="anthropic", body=_message(body))
            self._seen[key] = (digest(digests.encode_seen(message.body)), message)
        same, message = self._seen[key]
        place = (id(context), same)
        if place not in self._nodes:
            node = extend(context, (message,))
            assert node is not None
            self._nodes[place] = node
        return self._nodes[place]

    def _system(self, exchange: Exchange) -> Message | None:
        raw = (exchange.request or {}).get("system")
        if raw is None:
            return None
        key = digest(raw)
        if key not in self._systems:
            body = {"role": "system", "content": exchange.part("system")}
            self._systems[key] = Message(dialect="anthropic", body=body)
        found = self._systems[key]
        return found if found.body["content"] else None

    def _tools(self, exchange: Exchange) -> tuple[Tool, ...] | None:
        """The tools offered: none where the request names none, unknown where nobody kept it."""
        raw = (exchange.request or {}).get("tools")
        if raw is None:
            return () if exchange.request is not None else None
        key = digest(raw)
        if key not in self._toolsets:
            declared = exchange.part("tools")
            listed = declared if isinstance(declared, list) else []
            self._toolsets[key] = tuple(map(tool, listed))
        return self._toolsets[key]


def _message(body: Json) -> dict[str, Json]:
    return body if isinstance(body, dict) else {"role": "user", "content": body}
