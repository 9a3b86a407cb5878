"""A model span's request and response beside their messages, and the tool calls it asked for.

Model, tools, settings and figures; what each call was shown, as chains that share what calls
have in common; which model call asked for which tool call, and what it was answered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from replay.formats.chat import tool
from replay.formats.common import (
    count,
    derived_id,
    known,
    listed,
    obj,
    recorded,
    stop,
    total_usage,
    usd,
    word,
)
from replay.formats.openinference import messages as written
from replay.formats.openinference.exports import Raw, parsed
from replay.formats.openinference.messages import Body
from replay.messages import Call, calls, results, text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    Context,
    Cost,
    Fidelity,
    Json,
    Level,
    Message,
    ModelCall,
    Observation,
    Request,
    Response,
    Tool,
    ToolCall,
    Usage,
    extend,
)

NO_INPUT = "the input was not recorded"
NO_TOOL_NAMES = "tool definitions recorded without their names"

_READ = (
    "openinference.", "llm.", "gen_ai.", "ai.", "input.", "output.", "tool.name", "tool.id",
    "tool.parameters", "annotations.", "evaluations.", "session.", "agent.name",
    "anthropic.tool_result.", "anthropic.message.",
)  # fmt: skip
"""How the attributes begin that a field of ours holds, or that repeat what one does."""


def first(raw: Raw, *names: str) -> Json:
    """The first of these attributes that is there, None where none is."""
    return next((raw.attributes[name] for name in names if name in raw.attributes), None)


def request(raw: Raw) -> Request:
    """All but the messages."""
    settings = parsed(raw.attributes.get("llm.invocation_parameters"))
    params = {name: value for name, value in obj(settings).items() if name != "tools"}
    return Request(
        model=word(
            first(
                raw, "llm.request.model_name", "gen_ai.request.model", "llm.model_name",
                "ai.model.id",
            )
        ),
        tools=_tools(raw),
        params=params,
    )  # fmt: skip


def response(raw: Raw, message: Message | None) -> Response:
    raw_stop = first(
        raw, "llm.finish_reason", "anthropic.message.stop_reason",
        "gen_ai.response.finish_reasons", "gen_ai.completion.0.finish_reason",
        "ai.response.finishReason",
    )  # fmt: skip
    if isinstance(raw_stop, list):
        raw_stop = raw_stop[0] if raw_stop else None
    why = word(raw_stop)
    return Response(
        message=message,
        id=word(first(raw, "gen_ai.response.id", "ai.response.id")),
        model=word(
            first(
                raw, "llm.response.model_name", "gen_ai.response.model", "ai.response.model",
                "llm.model_name",
            )
        ),
        stop=stop(why.replace("-", "_")) if why else None,
        stop_raw=why,
    )  # fmt: skip


def usage(raw: Raw) -> Usage | None:
    """Tokens; the input counts the cache in, as the convention says."""

    def of(*names: str) -> int | None:
        return count(first(raw, *names))

    detail = "llm.token_count.prompt_details."
    return total_usage(
        of(
            "llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens",
            "ai.usage.inputTokens", "ai.usage.promptTokens",
        ),
        of(
            "llm.token_count.completion", "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens",
        ),
        reasoning=of("llm.token_count.completion_details.reasoning", "ai.usage.reasoningTokens"),
        read=of(
            f"{detail}cache_read", "gen_ai.usage.cache_read.input_tokens",
            "ai.usage.cachedInputTokens",
        ),
        write=of(
            f"{detail}cache_write", "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation.input_tokens",
        ),
    )  # fmt: skip


def cost(raw: Raw) -> Cost | None:
    """What the source says the call cost."""
    return recorded(usd(raw.attributes.get("llm.cost.total")))


def fidelity(asked: Request, *, joined: bool) -> Fidelity:
    """Exact where messages, system prompt and tools were recorded; `joined` where the messages
    of earlier calls had to be put before those recorded."""
    if asked.context is None and asked.system is None:
        return Fidelity(level=Level.NONE, reasons=(NO_INPUT,))
    reasons = (NO_SYSTEM,) if asked.system is None else ()
    if asked.tools is None:
        reasons = (*reasons, NO_TOOLS)
    elif not all(each.name for each in asked.tools):
        reasons = (*reasons, NO_TOOL_NAMES)
    if reasons:
        return Fidelity(level=Level.PARTIAL, reasons=reasons)
    return Fidelity(level=Level.REBUILT if joined else Level.EXACT)


def rest(raw: Raw) -> dict[str, Json]:
    """Attributes and events that no field of ours holds."""
    kept = {n: v for n, v in raw.attributes.items() if not n.startswith(_READ)}
    return known(attributes=kept, events=list(raw.events))


def _tools(raw: Raw) -> tuple[Tool, ...] | None:
    """The tools offered, None where the span does not say."""
    counted = listed(obj(raw.tree.get("llm")).get("tools"))
    if counted:
        return tuple(_tool(obj(obj(each).get("tool")).get("json_schema")) for each in counted)
    older = listed(obj(obj(raw.tree.get("llm")).get("request")).get("functions"))
    if older:
        return tuple(
            _tool({**obj(each), "parameters": parsed(obj(each).get("parameters"))})
            for each in older
        )
    declared = parsed(first(raw, "gen_ai.tool.definitions", "ai.prompt.tools"))
    return tuple(map(_tool, declared)) if isinstance(declared, list) else None


def _tool(declared: Json) -> Tool:
    body: Any = parsed(declared)
    if isinstance(body, dict) and "inputSchema" in body:
        body = {**body, "input_schema": body["inputSchema"]}
        del body["inputSchema"]
    return tool(body if isinstance(body, dict) else {"name": word(body) or ""})


_SYSTEM = {"system", "developer"}


class Shown(NamedTuple):
    """`fresh` are messages no call was shown before; `joined` as in `calls.fidelity`."""

    system: Message | None = None
    context: Context | None = None
    fresh: tuple[Message, ...] = ()
    joined: bool = False


class Conversations:
    """The contexts of one trace's model calls, in time order."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], Context] = {}
        self._systems: dict[bytes, Message] = {}

    def shown(self, bodies: list[Body], before: ModelCall | None) -> Shown:
        """What a call was shown; `before` is the model call of its thread before it."""
        system = None
        if bodies and word(bodies[0].get("role")) in _SYSTEM:
            key = msgspec.json.encode(bodies[0])
            system = self._systems.setdefault(key, Message(dialect="openai", body=bodies[0]))
            bodies = bodies[1:]
        told = [Message(dialect="openai", body=body) for body in bodies]
        joined = system is None and before is not None and _continues(told, before)
        context: Context | None = None
        if joined and before is not None:
            system, context = before.request.system, before.request.context
            if before.response.message is not None:
                told.insert(0, before.response.message)
        fresh: list[Message] = []
        for message in told:
            context, new = self._after(context, message)
            if new:
                fresh.append(message)
        return Shown(system, context, tuple(fresh), joined)

    def _after(self, context: Context | None, message: Message) -> tuple[Context, bool]:
        """The node of a message after a context, and whether it is new."""
        key = (id(context), msgspec.json.encode(message.body))
        node = self._nodes.get(key)
        if node is not None:
            return node, False
        node = extend(context, (message,))
        assert node is not None
        self._nodes[key] = node
        return node, True


def _continues(told: list[Message], before: ModelCall) -> bool:
    """Do the messages begin with answers to the calls that the one before made?"""
    if before.response.message is None or not told:
        return False
    made = {call.id for call in calls(before.response.message)}
    found = results(told[0])
    return bool(found) and all(result.call_id in made for result in found)


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
            for told in written.calls(message) if asker is not None else ():
                assert asker is not None
                call = Call(id=told.call_id, name=told.name, arguments=told.arguments)
                self._want(thread, asker, call)
            answer = written.answer(message)
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
