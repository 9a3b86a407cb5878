"""A `model` event of an Inspect log as a model call: request, answer, usage, cost, times.

What each call was shown is kept as chains that share what calls have in common. A `model` event
is decoded in one piece but for its long fields, which stay bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct, field

from replay.formats.common import (
    Times,
    count,
    known,
    listed,
    obj,
    recorded,
    seconds_ns,
    stop,
    total_usage,
    usd,
    word,
)
from replay.formats.inspect.archive import Attachments, Parts, entries, parts
from replay.formats.inspect.tree import Node
from replay.formats.source import Tally
from replay.trace import (
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

_REPEATED = {
    "model", "messages", "contents", "input", "inputs", "prompt", "system", "instructions",
    "system_instruction", "tools", "tool_choice", "extra_headers",
}  # fmt: skip
"""Keys of a provider's request that repeat what the event says, in that provider's dialect (their
messages may stand in a pool of their own). What remains are parameters Inspect filled in."""


class Models:
    """The model calls of one sample. What the log repeats in every call is made once."""

    def __init__(self, texts: Attachments) -> None:
        self._texts = texts
        self._tools: tuple[Raw | None, tuple[Tool, ...] | None] = (None, None)
        self._config: tuple[Raw | None, dict[str, Any]] = (None, {})
        self._choice: tuple[Raw | None, Json] = (None, None)

    def call(self, node: Node, parent: str, asked: Asked, event: ModelEvent) -> ModelCall:
        """The model call of a `model` event; `asked` is its context."""
        output, sent = obj(event.output), parts(event.call) or {}
        choices = [obj(choice) for choice in listed(output.get("choices"))]
        usage = obj(output.get("usage"))
        error = word(event.error) or word(output.get("error"))
        tools = self._offered(event.tools)
        config = self._configured(event.config)
        start, end, quality = _times(node, event, output)
        return ModelCall(
            id=node.id,
            name="chat",
            parent=parent,
            start_ns=start,
            end_ns=end,
            time_quality=quality,
            status=node.status(error),
            error=error,
            place=node.place,
            extra=self._extra(event, output, sent, config, choices[1:]),
            request=Request(
                model=word(event.model),
                system=asked.system,
                tools=tools,
                params=self._params(config, event.tool_choice),
                context=asked.context,
            ),
            response=self._response(output, sent, choices[0] if choices else {}),
            usage=read_usage(usage),
            cost=_cost(event, usage),
            fidelity=_fidelity(asked, tools),
            agent=word(event.role),
        )

    def _offered(self, declared: Raw) -> tuple[Tool, ...] | None:
        """The tools of a model event, None where it does not say."""
        if self._tools[0] != declared:
            self._tools = (declared, offered(self._texts.read(declared)))
        return self._tools[1]

    def _configured(self, config: Raw) -> dict[str, Any]:
        if self._config[0] != config:
            said = obj(self._texts.read(config))
            self._config = (config, {n: value for n, value in said.items() if value is not None})
        return self._config[1]

    def _params(self, config: dict[str, Any], choice: Raw) -> dict[str, Json]:
        if self._choice[0] != choice:
            self._choice = (choice, self._texts.read(choice))
        chosen = self._choice[1]
        return config if chosen is None else {**config, "tool_choice": chosen}

    def _extra(
        self,
        event: ModelEvent,
        output: dict[str, Any],
        sent: Parts,
        config: Mapping[str, Json],
        other_choices: list[dict[str, Any]],
    ) -> dict[str, Json]:
        said = {
            "cache": event.cache,
            "retries": event.retries,
            "attempt": event.attempt,
            "generate": event.call_id,
            "pending": event.pending,
            "working_time": event.working_time,
            "requested_model": event.requested_model,
            "traceback": event.traceback,
            "sent": self._filled_in(sent, config) or None,
            "fallback": output.get("fallback"),
            "other_choices": other_choices or None,
            "metadata": event.metadata,
        }
        return known(**{name: value for name, value in said.items() if value is not None})

    def _filled_in(self, sent: Parts, config: Mapping[str, Json]) -> dict[str, Json]:
        """What the provider was sent beside what the event says."""
        request = parts(sent.get("request"))
        if not request:
            return {}
        found = {n: self._texts.read(raw) for n, raw in request.items() if n not in _REPEATED}
        return {
            name: value
            for name, value in found.items()
            if value is not None and value != config.get(name)
        }

    def _response(self, output: dict[str, Any], sent: Parts, choice: dict[str, Any]) -> Response:
        body = choice.get("message")
        message = Message(dialect="inspect", body=body) if isinstance(body, dict) else None
        raw = word(choice.get("stop_reason"))
        return Response(
            message=message,
            id=word(output.get("response_id")) or self._response_id(sent),
            model=word(output.get("model")),
            stop=stop(raw, message),
            stop_raw=raw,
        )

    def _response_id(self, sent: Parts) -> str | None:
        raw = (parts(sent.get("response")) or {}).get("id")
        return word(self._texts.read(raw)) if raw is not None else None


def _times(node: Node, event: ModelEvent, output: dict[str, Any]) -> Times:
    """Older logs tell a call's duration; the oldest stamp it only when it is done."""
    found = node.times
    if found.start_ns is None or found.end_ns is not None or node.pending:
        return found
    took = seconds_ns(output.get("time"))
    took = seconds_ns(event.working_time) if took is None else took
    if took is not None and (found.start_ns + took).bit_length() < 64:
        return Times(found.start_ns, found.start_ns + took, "derived")
    return found if event.working_start is not None else Times(None, found.start_ns)


def _fidelity(asked: Asked, tools: tuple[Tool, ...] | None) -> Fidelity:
    """Inspect records the request it makes: exact, unless a part of it is not in the log."""
    if not asked.flaws and tools is not None:
        return _EXACT
    if NO_INPUT in asked.flaws:
        return Fidelity(level=Level.NONE, reasons=asked.flaws)
    reasons = asked.flaws if tools is not None else (*asked.flaws, NO_TOOLS)
    return Fidelity(level=Level.PARTIAL, reasons=reasons)


_EXACT = Fidelity(level=Level.EXACT)


def offered(declared: Json) -> tuple[Tool, ...] | None:
    """The tools of a list, None for anything else."""
    if not isinstance(declared, list):
        return None
    return tuple(_tool(each) for each in declared if isinstance(each, dict))


def _tool(declared: dict[str, Any]) -> Tool:
    names = {"name", "description", "parameters"}
    return Tool(
        name=word(declared.get("name")) or "",
        description=word(declared.get("description")),
        schema=declared.get("parameters"),
        extra={
            name: value
            for name, value in declared.items()
            if name not in names and value is not None
        },
    )


def read_usage(usage: dict[str, Any]) -> Usage | None:
    """Inspect's figures as ours, the input with its cache.

    `input_tokens` leaves the cache out, but some older providers wrote the total there: the
    record tells, for then `total_tokens` is input and output without the cache.
    """
    given, out = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    read = count(usage.get("input_tokens_cache_read"))
    write = count(usage.get("input_tokens_cache_write"))
    total, cached = given, (read or 0) + (write or 0)
    if given is not None and out is not None:
        inclusive = cached <= given and count(usage.get("total_tokens")) == given + out
        total = given if inclusive else given + cached
    elif given is not None:
        total = given + cached
    reasoning = count(usage.get("reasoning_tokens"))
    return total_usage(total, out, reasoning=reasoning, read=read, write=write)


def _cost(event: ModelEvent, usage: dict[str, Any]) -> Cost | None:
    """What the log says it cost; an answer out of Inspect's own cache cost nothing."""
    amount = usd(usage.get("total_cost"))
    return recorded(0.0 if amount is None and event.cache == "read" else amount)


_ABSENT = Raw(b"null")


class ModelEvent(Struct):
    """What a model event says; None, or null in bytes, is what it does not say."""

    model: Json = None
    role: Json = None
    requested_model: Json = None
    input_refs: Json = None
    output: Json = None
    error: Json = None
    traceback: Json = None
    cache: Json = None
    retries: Json = None
    attempt: Json = None
    call_id: Json = None
    pending: Json = None
    working_start: Json = None
    working_time: Json = None
    metadata: Json = None
    input: Raw = _ABSENT
    tools: Raw = _ABSENT
    tool_choice: Raw = _ABSENT
    config: Raw = _ABSENT
    call: Raw = _ABSENT
    # known to its node, or of no use
    event: Raw = _ABSENT
    uuid: Raw = _ABSENT
    span_id: Raw = _ABSENT
    timestamp: Raw = _ABSENT
    completed: Raw = _ABSENT
    request_ids: Raw = _ABSENT
    traceback_ansi: Raw = _ABSENT


class _AllKnown(ModelEvent, forbid_unknown_fields=True):
    """A model event without a field that is not understood."""


_all_known = msgspec.json.Decoder(_AllKnown).decode
_NAMES = ModelEvent.__struct_fields__
_VALUES = _NAMES[: _NAMES.index("input")]


def opened(raw: Raw, texts: Attachments, tally: Tally) -> ModelEvent:
    """A model event with its attachments. Raises BadTrace where it cannot be decoded."""
    data = bytes(raw)
    try:
        event: ModelEvent = _all_known(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        event = _piecewise(data, texts, tally)
    if not texts.as_written(data):
        for name in _VALUES:
            setattr(event, name, texts.put_back(getattr(event, name), data))
    return event


def _piecewise(data: bytes, texts: Attachments, tally: Tally) -> ModelEvent:
    """The same with each field decoded by itself: some are unknown, or hold broken text."""
    fields: dict[str, Any] = {}
    for name, raw in (parts(data) or {}).items():
        if name in _VALUES:
            fields[name] = texts.read(raw)
        elif name in _NAMES:
            fields[name] = raw
        else:
            tally.unknown[f"model {name}"] += 1
    return ModelEvent(**fields)


NO_INPUT = "the input was not recorded"
NOT_WHOLE = "part of the input is not in the log"

MAX_CONVERSATION = 1_000_000
"""Messages that the ranges of one call may name; more is no conversation but a broken log."""


_NOTHING = Message(dialect="inspect", body={"role": "", "content": ""})


class Asked(NamedTuple):
    """What a model call was shown. `fresh` joined since the last call of its conversation."""

    system: Message | None = None
    context: Context | None = None
    fresh: tuple[Message, ...] = ()
    flaws: tuple[str, ...] = ()


Range: TypeAlias = tuple[int, int]
"""Places of the pool: from, up to but without."""


class _Chain(Struct):
    """A conversation as far as it is known: what was said, a node and the flaws at each message."""

    said: Sequence[Any] = ()
    nodes: list[Context] = field(default_factory=list)
    flaws: list[tuple[str, ...]] = field(default_factory=list)

    def cut(self, length: int) -> None:
        del self.nodes[length:], self.flaws[length:]

    def add(self, message: Message, flaw: str | None) -> None:
        known = self.flaws[-1] if self.flaws else ()
        grown = extend(self.nodes[-1] if self.nodes else None, (message,))
        assert grown is not None
        self.nodes.append(grown)
        self.flaws.append((*known, flaw) if flaw and flaw not in known else known)


class Conversations:
    """The contexts of one sample's model calls, in the order of its events."""

    def __init__(self, pool: list[Raw], attachments: Attachments) -> None:
        """What was read of the pool is taken out of it."""
        self._pool = pool
        self._attachments = attachments
        self._read: dict[int, Message] = {}
        self._flaws: dict[int, str] = {}
        self._chains: dict[tuple[str, int | bytes], _Chain] = {}
        self._opening: tuple[Raw, Message, str | None] | None = None
        self._answers: dict[str, Message] = {}

    def answered(self, thread: str, answer: Message) -> None:
        """The model's last answer: where the next call of the thread is shown it, it is this."""
        self._answers[thread] = answer

    def context_of(self, thread: str, event: ModelEvent) -> Asked:
        """What a model event of that thread was shown: its input, or the ranges it names."""
        given = entries(event.input)
        if given:
            return self._inline(thread, given)
        refs = event.input_refs
        if isinstance(refs, list) and refs:
            return self._pooled(thread, refs)
        return Asked(flaws=(NO_INPUT,))

    # --- conversations repeated in every call

    def _inline(self, thread: str, given: list[Raw]) -> Asked:
        system, flaw = None, None
        first, missing = self._opened(given[0])
        if first.role == "system":
            system, flaw = first, missing
            given = given[1:]
        if not given:
            return Asked(system=system, flaws=_all((), flaw))
        chain = self._chain(thread, bytes(given[0]))
        shared = _shared(chain.said, given)
        new = (self._message(raw, thread) for raw in given[shared:])
        return self._grow(chain, given, shared, new, system, flaw)

    def _opened(self, raw: Raw) -> tuple[Message, str | None]:
        """The first message, the same object as long as it stays the same."""
        if self._opening is None or self._opening[0] != raw:
            self._opening = (raw, *self._message(raw))
        return self._opening[1:]

    def _message(self, raw: Raw, thread: str | None = None) -> tuple[Message, str | None]:
        message, flaw = self._attachments.message(raw)
        if message is None:
            return _NOTHING, NOT_WHOLE
        answer = self._answers.get(thread or "")
        return (answer, flaw) if answer is not None and answer == message else (message, flaw)

    # --- conversations that name ranges of the pool

    def _pooled(self, thread: str, refs: list[Json]) -> Asked:
        ranges, broken = _ranges(refs, len(self._pool))
        if not ranges or sum([stop - start for start, stop in ranges]) > MAX_CONVERSATION:
            return Asked(flaws=(NO_INPUT,))
        system, flaw = None, None
        first, stop = ranges[0]
        opening = self._at(first)
        if opening[0].role == "system":
            system, flaw = opening
            ranges[:1] = [(first + 1, stop)] if first + 1 < stop else []
        if not ranges:
            return Asked(system=system, flaws=_all((), broken, flaw))
        chain = self._chain(thread, ranges[0][0])
        shared = _shared_ranges(chain.said, ranges)
        new = (self._at(place, thread) for place in _after(ranges, shared))
        return self._grow(chain, ranges, shared, new, system, broken, flaw)

    def _at(self, place: int, thread: str | None = None) -> tuple[Message, str | None]:
        found = self._read.get(place)
        if found is None:
            found, flaw = self._message(self._pool[place], thread)
            self._pool[place], self._read[place] = _ABSENT, found
            if flaw is not None:
                self._flaws[place] = flaw
        return found, self._flaws.get(place)

    # --- both

    def _chain(self, thread: str, begins: int | bytes) -> _Chain:
        """The conversation of a thread that begins so: an agent and its critic may take turns."""
        return self._chains.setdefault((thread, begins), _Chain())

    def _grow(
        self,
        chain: _Chain,
        said: Sequence[Any],
        shared: int,
        new: Iterable[tuple[Message, str | None]],
        system: Message | None,
        *flaws: str | None,
    ) -> Asked:
        chain.cut(shared)
        chain.said = said
        for message, flaw in new:
            chain.add(message, flaw)
        return Asked(
            system=system,
            context=chain.nodes[-1],
            fresh=tuple(node.message for node in chain.nodes[shared:]),
            flaws=_all(chain.flaws[-1], *flaws),
        )


def _all(known: tuple[str, ...], *flaws: str | None) -> tuple[str, ...]:
    """What is missing, each thing once."""
    if not any(flaws):
        return known
    return tuple(dict.fromkeys((*filter(None, flaws), *known)))


def _shared(before: Sequence[Raw], now: Sequence[Raw]) -> int:
    """How many leading messages are equal."""
    for place, (ours, theirs) in enumerate(zip(before, now, strict=False)):
        if ours != theirs:
            return place
    return min(len(before), len(now))


def _ranges(refs: list[Json], size: int) -> tuple[list[Range], str | None]:
    """The ranges that lie in the pool, adjacent ones as one; what is missing where one does not."""
    found: list[Range] = []
    broken = None
    for ref in refs:
        if not _is_range(ref) or not 0 <= ref[0] < ref[1] <= size:
            broken = NOT_WHOLE
        elif found and found[-1][1] == ref[0]:
            found[-1] = (found[-1][0], ref[1])
        else:
            found.append((ref[0], ref[1]))
    return found, broken


def _is_range(ref: Json) -> bool:
    if not isinstance(ref, (list, tuple)) or len(ref) != 2:
        return False
    return type(ref[0]) is int and type(ref[1]) is int


def _shared_ranges(before: Sequence[Json], now: Sequence[Range]) -> int:
    """How many leading messages two lists of ranges share; neither has adjacent ranges."""
    count = 0
    for ours, theirs in zip(before, now, strict=False):
        if ours[0] != theirs[0]:
            break
        count += min(ours[1], theirs[1]) - ours[0]
        if ours[1] != theirs[1]:
            break
    return count


def _after(ranges: Iterable[Range], count: int) -> Iterator[int]:
    """The places that the ranges name, without the first `count`."""
    for start, end in ranges:
        skipped = min(count, end - start)
        count -= skipped
        yield from range(start + skipped, end)
