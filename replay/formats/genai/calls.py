"""A model span's request and response: messages, model, tools, settings, figures.

Every generation of the GenAI conventions is read.

What each call was shown is kept as chains that share what calls have in common.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from replay.depth import from_text
from replay.formats.chat import dialect_of, tool
from replay.formats.common import (
    anthropic_usage,
    count,
    known,
    listed,
    obj,
    recorded,
    stop,
    total_usage,
    usd,
    word,
)
from replay.formats.genai import attributes, messages
from replay.formats.genai.attributes import Known
from replay.formats.genai.messages import (
    Body,
    bodies,
    counted,
    has_messages,
    is_left_out,
    join_items,
    several,
)
from replay.formats.genai.records import Raw, RawSpan, flat, grown, parsed
from replay.formats.genai.translate import answers, asks
from replay.messages import calls, results
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
    Request,
    Response,
    Tool,
    Usage,
    extend,
)

NO_INPUT = "the input was not recorded"
CUT_OFF = "the recorded input is cut off"
DROPPED = "attributes of the span were dropped where it was recorded"


class Toolsets:
    """The tools offered, one value for all calls that were offered the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Tool, ...] | None] = {}

    def of(self, span: Known) -> tuple[Tool, ...] | None:
        """None where the span does not say."""
        given = span.of(attributes.TOOLS)
        if given is None:
            given = _counted(span.raw.attributes)
        if given is None:
            return None
        key = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        if key not in self._known:
            declared = parsed(given)
            listed_ = declared if isinstance(declared, list) else None
            self._known[key] = None if listed_ is None else tuple(map(tool_of, listed_))
        return self._known[key]


def _counted(attributes: dict[str, Json]) -> list[Json] | None:
    """Tools spread over attributes with numbers in their names, None for none."""
    stems = ("llm.tools.", "llm.request.functions.")
    found = {name: value for name, value in attributes.items() if name.startswith(stems)}
    if not found:
        return None
    tree = obj(grown(found).get("llm"))
    functions = [
        {**each, **({"parameters": parsed(each["parameters"])} if "parameters" in each else {})}
        for each in map(obj, listed(obj(tree.get("request")).get("functions")))
    ]
    tools = [obj(obj(each).get("tool")).get("json_schema") for each in listed(tree.get("tools"))]
    return [*functions, *tools]


def tool_of(declared: Json) -> Tool:
    """A tool as its definition declares it, or by its name alone."""
    body: Any = parsed(declared)
    if word(obj(obj(body).get("data")).get("name")):  # Haystack's tools in JSON
        about = body["data"]
        body = {name: about.get(name) for name in ("name", "description", "parameters")}
    if isinstance(body, dict) and "inputSchema" in body:
        body = {**body, "input_schema": body["inputSchema"]}
        del body["inputSchema"]
    return tool(body if isinstance(body, dict) else {"name": word(body) or ""})


def request(span: Known, tools: tuple[Tool, ...] | None) -> Request:
    """All but the messages."""
    params = span.given.params
    settings = span.raw.attributes.get("llm.invocation_parameters")
    if settings is not None:
        named = obj(parsed(settings)).items()
        own = {name: value for name, value in named if name not in ("tools", "messages")}
        params = {**own, **params}
    return Request(model=span.word(attributes.ASKED_MODEL), tools=tools, params=params)


def response(span: Known, message: Message | None, why: str | None) -> Response:
    """The answer; `why` is the stop reason its message came with, after the span's own."""
    given = parsed(span.of(attributes.STOP))
    if isinstance(given, list):
        given = given[0] if given else None
    said = word(given) or why
    return Response(
        message=message,
        id=span.word(attributes.RESPONSE),
        model=span.word(attributes.ANSWERED_MODEL),
        stop=stop(said, message),
        stop_raw=said,
    )


def usage(span: Known) -> Usage | None:
    """Tokens; the input counts the cache in, as the conventions say, but for Claude Code's own."""
    given = span.raw.attributes
    if "input_tokens" in given and "cache_creation_tokens" in given:
        own = {"cache_read_input_tokens": given.get("cache_read_tokens")}
        own["cache_creation_input_tokens"] = given["cache_creation_tokens"]
        return anthropic_usage({**given, **own})
    made = total_usage(
        count(span.of(attributes.USAGE_IN)),
        count(span.of(attributes.USAGE_OUT)),
        reasoning=count(span.of(attributes.REASONING)),
        read=count(span.of(attributes.CACHE_READ)),
        write=count(span.of(attributes.CACHE_WRITE)),
    )
    hourly = count(span.of(attributes.CACHE_WRITE_1H))
    if made is None or hourly is None or hourly > (made.cache_write_tokens or 0):
        return made
    return structs.replace(made, cache_write_1h_tokens=hourly)


def cost(span: Known) -> Cost | None:
    """What the source says the call cost."""
    return recorded(usd(span.of(attributes.COST)))


def fidelity(asked: Request, *, joined: bool, cut: bool, dropped: bool) -> Fidelity:
    """Exact where messages, system prompt and tools were recorded; `joined` where the messages of
    earlier calls had to be put before those recorded; none where the record is `cut` off or
    attributes were `dropped`, for any message may be among them."""
    if cut or dropped:
        return Fidelity(level=Level.NONE, reasons=(CUT_OFF if cut else DROPPED,))
    if asked.context is None:
        return Fidelity(level=Level.NONE, reasons=(NO_INPUT,))
    reasons = (NO_SYSTEM,) if asked.system is None else ()
    if asked.tools is None:
        reasons = (*reasons, NO_TOOLS)
    if reasons:
        return Fidelity(level=Level.PARTIAL, reasons=reasons)
    return Fidelity(level=Level.REBUILT if joined else Level.EXACT)


def rest(span: Known) -> dict[str, Json]:
    """Attributes and events that no field of ours holds."""
    found: dict[str, Json] = {"attributes": span.given.rest} if span.given.rest else {}
    events = [
        known(name=event.name, time_ns=event.time_ns, attributes=event.attributes)
        for event in span.raw.events
        if not event.name.startswith("gen_ai.")
    ]
    if events:
        found["events"] = events
    return found


RECENT = 8
"""How many earlier texts a new one is held against; more threads at once are rare."""

_SYSTEM = {"system", "developer"}
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Shown(NamedTuple):
    """`fresh` are messages no call was shown before; `opening` is the call whose conversation was
    put before the messages recorded; `cut` says that the record breaks off."""

    system: Message | None = None
    context: Context | None = None
    fresh: tuple[Message, ...] = ()
    opening: ModelCall | None = None
    cut: bool = False


class Before(NamedTuple):
    """The model call before one in its thread, and the one it names as what it goes on with."""

    latest: ModelCall | None = None
    named: ModelCall | None = None


class _Context(NamedTuple):
    """A conversation that a call was shown.

    `stem` is its text without the closing bracket, `lifted` the system message that stood first in
    it, `opening` the call whose conversation it goes on with, where it does.
    """

    stem: str = ""
    lifted: Message | None = None
    context: Context | None = None
    opening: ModelCall | None = None


def message_of(body: Body) -> Message:
    blocks = isinstance(body.get("content"), list)
    return Message(dialect=dialect_of(body) if blocks else "openai", body=body)


def _mark(data: bytes) -> bytes:
    """What stands for a recorded message in a key: a window that slides keeps each a hundred times
    over."""
    return hashlib.blake2b(data, digest_size=16).digest()


class Conversations:
    """The contexts of one trace's model calls, in time order."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], Context] = {}
        self._parts: dict[tuple[int, bytes], tuple[Message | None, Context | None]] = {}
        self._messages: dict[bytes, Message] = {}
        self._systems: dict[bytes, Message] = {}
        self._instructions: dict[str, Message | None] = {}
        self._recent: deque[_Context] = deque(maxlen=RECENT)

    def system(self, body: Body) -> Message:
        """The one message for all equal system prompts."""
        return self._systems.setdefault(msgspec.json.encode(body), message_of(body))

    def instructions(self, given: Json) -> Message | None:
        """The system prompt of a list of parts, one part, or a text; None where it is empty."""
        key = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        if key not in self._instructions:
            parts = parsed(given)
            entry = {"role": "system", "parts": parts if isinstance(parts, list) else [parts]}
            body = next(bodies(entry), None)
            self._instructions[key] = self.system(body) if body is not None else None
        return self._instructions[key]

    def text(self, text: str, system: Message | None, before: Before) -> Shown:
        """What a call was shown, of the JSON text of a list. Of one that breaks off nothing is
        known."""
        told, rest = self._begun(text) if before.named is None else (None, text)
        try:
            parts = [bytes(part) for part in _split(rest)]
            if told is None:
                first = [*bodies(from_text(parts[0]))] if parts else []
                opening = _opening(first, system, before)
                told = _Context(context=_after(opening), opening=opening)
            lifted, context = told.lifted, told.context
            fresh: list[Message] = []
            for part in parts:
                lifted, context = self._shown(part, lifted or system, lifted, context, fresh)
        except (msgspec.DecodeError, RecursionError):
            return Shown(system=system, cut=True)
        stem = text.rstrip()[:-1].rstrip()
        if len(stem) > 1 and before.named is None:
            self._recent.append(_Context(stem, lifted, context, told.opening))
        return _put(system or lifted, context, fresh, told.opening)

    def bodies(self, found: list[Body], system: Message | None, before: Before) -> Shown:
        """The same of messages that are read already."""
        opening = _opening(found[:1], system, before)
        context = _after(opening)
        fresh: list[Message] = []
        for body in found:
            if context is None and system is None and word(body.get("role")) in _SYSTEM:
                system = self.system(body)
            else:
                context = self._node(context, body, fresh)
        return _put(system, context, fresh, opening)

    def _begun(self, text: str) -> tuple[_Context | None, str]:
        """The latest conversation that a text goes on with, and the list of what is new in it."""
        for told in reversed(self._recent):
            if text.startswith(told.stem):
                tail = text[len(told.stem) :].lstrip()
                if tail.startswith(","):
                    return told, "[" + tail[1:]
                if tail.rstrip() == "]":
                    return told, "[]"
        return None, text

    def _shown(
        self,
        part: bytes,
        system: Message | None,
        lifted: Message | None,
        context: Context | None,
        fresh: list[Message],
    ) -> tuple[Message | None, Context | None]:
        """The system message and the chain after one more recorded message."""
        key = (id(context or system), _mark(part))
        if key not in self._parts:
            for body in bodies(from_text(part)):
                if context is None and system is None and word(body.get("role")) in _SYSTEM:
                    system = lifted = self.system(body)
                else:
                    context = self._node(context, body, fresh)
            self._parts[key] = (lifted, context)
        return self._parts[key]

    def _node(self, context: Context | None, body: Body, fresh: list[Message]) -> Context:
        """The node of a message after a context; a new one is fresh."""
        mark = _mark(msgspec.json.encode(body))
        key = (id(context), mark)
        node = self._nodes.get(key)
        if node is None:
            message = self._messages.get(mark) or message_of(body)
            self._messages[mark] = message
            node = Context(
                message=message, parent=context, depth=context.depth + 1 if context else 1
            )
            self._nodes[key] = node
            fresh.append(message)
        return node


def _put(
    system: Message | None,
    context: Context | None,
    fresh: list[Message],
    opening: ModelCall | None,
) -> Shown:
    """What was shown; a call that goes on with another one's has its system prompt too."""
    if opening is not None:
        system = system or opening.request.system
    return Shown(system, context, tuple(fresh), opening)


def _opening(first: list[Body], system: Message | None, before: Before) -> ModelCall | None:
    """The call whose conversation comes before these first messages: the one that is named, or
    the one before where they answer calls that it made, and nothing else."""
    latest = before.latest
    if before.named is not None or latest is None or system is not None or not first:
        return before.named
    if latest.response.message is None:
        return None
    made = {call.id for call in calls(latest.response.message)}
    answered = [result for body in first for result in results(message_of(body))]
    whole = len(answered) >= len(first) and all(each.call_id in made for each in answered)
    return latest if whole else None


def _after(call: ModelCall | None) -> Context | None:
    """The conversation of a call with its answer, nothing for no call."""
    if call is None or call.response.message is None:
        return call.request.context if call is not None else None
    return extend(call.request.context, (call.response.message,))


_CUT = "anthropic.content.truncated"


class Talk(NamedTuple):
    """`answer` is the model's message, `why` the stop reason it came with; `spread` says that the
    messages lay in several attributes, of which some may have been dropped."""

    shown: Shown
    answer: Message | None = None
    why: str | None = None
    spread: bool = False


def talk(raw: RawSpan, conversations: Conversations, before: Before) -> Talk:
    """Both sides of a model span, after the calls before it."""
    given = raw.attributes
    if attributes.INPUT in given or attributes.OUTPUT in given:
        found = _whole(given, conversations, before)
        if attributes.INPUT not in given and asks(raw):
            found = found._replace(shown=_pieces(raw, conversations, before).shown)
        elif attributes.OUTPUT not in given and answers(raw):
            found = found._replace(answer=_pieces(raw, Conversations(), before).answer)
    else:
        found = _pieces(raw, conversations, before)
    if given.get(_CUT) in (True, "true"):
        return found._replace(shown=found.shown._replace(cut=True))
    return found


def _whole(given: dict[str, Any], conversations: Conversations, before: Before) -> Talk:
    """Messages that stand in one attribute, as JSON text or as a value."""
    system = _instructions(given, conversations)
    asked = given.get(attributes.INPUT)
    if asked is None:
        shown = Shown(system=system)
    elif isinstance(asked, str) and asked.lstrip()[:1] not in ("[", "{"):
        shown = conversations.bodies(several(asked), system, before)
    else:
        text = asked if isinstance(asked, str) else msgspec.json.encode(asked).decode()
        if text.lstrip().startswith("{"):
            text = f"[{text}]"
        left_out = is_left_out(text)
        shown = Shown(system) if left_out else conversations.text(text, system, before)
    entries = parsed(given.get(attributes.OUTPUT))
    bodies = several(entries, "assistant") if entries is not None else []
    ended = obj(entries[0]).get("finish_reason") if isinstance(entries, list) and entries else None
    return Talk(shown, message_of(join_items(bodies)) if bodies else None, word(ended))


def _instructions(given: dict[str, Any], conversations: Conversations) -> Message | None:
    parts = given.get(attributes.SYSTEM)
    return conversations.instructions(parts) if parts else None


def _pieces(raw: RawSpan, conversations: Conversations, before: Before) -> Talk:
    """Messages of older generations, and of other conventions."""
    given = raw.attributes
    system = _instructions(given, conversations)
    asked, answer, why = has_messages(raw.events)
    spread = False
    if not asked and answer is None:
        asked, answer, spread = _attributes(given)
    if not asked and answer is None:
        asked, answer = _elsewhere(raw)
        spread = raw.cut and any(name.startswith("llm.input_messages.") for name in given)
    return Talk(
        conversations.bodies(asked, system, before),
        message_of(answer) if answer is not None else None,
        why,
        spread,
    )


def _attributes(given: dict[str, Any]) -> tuple[list[Body], Body | None, bool]:
    """`gen_ai.prompt.0.role` and so on; before these, one attribute for all of them."""
    asked, answers = counted(given, "prompt"), counted(given, "completion")
    spread = bool(asked or answers)
    if not asked and "gen_ai.prompt" in given:
        asked = several(parsed(given["gen_ai.prompt"]))
    if not answers and "gen_ai.completion" in given:
        answers = several(parsed(given["gen_ai.completion"]), "assistant")
    return asked, answers[0] if answers else None, spread


def _elsewhere(raw: RawSpan) -> tuple[list[Body], Body | None]:
    """OpenInference's names, the JavaScript SDK's, and whatever input and output a span has."""
    given = flat(raw.attributes)
    for name, ours in (("input.value", attributes.GIVEN), ("output.value", attributes.GAVE)):
        value = attributes.first(raw.attributes, ours.names)
        if value is not None:
            given[name] = value
    span = Raw(trace=raw.trace, id=raw.id, attributes=given)
    return messages.input_messages(span), messages.answered(span)
