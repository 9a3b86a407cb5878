"""What a recorded run is made of: messages, contexts, spans, and the trace that holds them.

Importers build these values, the store keeps them, every judgement reads them. A message is kept
as its provider wrote it, tagged with its dialect; its text, calls and results are views of it
(`replay.messages`). A context is a chain: a node is one message after a parent node, so that the
steps of a run share what they have in common. Unknown is `None`, everywhere.

No value refers back to what holds it, so none is looked at for cycles (`gc=False`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

Json: TypeAlias = Any
"""A JSON value: dict, list, str, int, float, bool or None. Never NaN or an infinity."""

Dialect: TypeAlias = Literal["anthropic", "openai", "inspect"]
"""Whose message shape a body has: Anthropic Messages, OpenAI chat, or Inspect's ChatMessage."""

Status: TypeAlias = Literal["ok", "error", "unset"]
Stop: TypeAlias = Literal[
    "end", "tool", "length", "context", "filter", "pause", "compaction", "error"
]
Effect: TypeAlias = Literal["read", "write", "unknown"]
TimeQuality: TypeAlias = Literal["exact", "derived", "none"]


class Message(Struct, frozen=True, gc=False, kw_only=True):
    """One chat message, provider-native. `body` has at least `role` and, mostly, `content`."""

    dialect: Dialect
    body: dict[str, Json]

    @property
    def role(self) -> str:
        return str(self.body.get("role", ""))


class Context(Struct, frozen=True, gc=False, eq=False, kw_only=True):
    """A conversation as a chain node: `message` after everything in `parent`."""

    message: Message
    parent: Context | None = None
    depth: int = 1

    def messages(self) -> list[Message]:
        """The whole conversation, oldest first."""
        return [node.message for node in self.nodes()]

    def nodes(self) -> list[Context]:
        """Every node of the chain, oldest first."""
        chain: list[Context] = []
        node: Context | None = self
        while node is not None:
            chain.append(node)
            node = node.parent
        chain.reverse()
        return chain


def extend(context: Context | None, messages: Iterable[Message]) -> Context | None:
    """The chain `context` with `messages` after it; the parent is shared, never copied."""
    for message in messages:
        depth = context.depth + 1 if context is not None else 1
        context = Context(message=message, parent=context, depth=depth)
    return context


class Tool(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A tool as offered to the model. `schema` is JSON Schema; `extra` what else was declared."""

    name: str
    description: str | None = None
    schema: Json | None = None
    extra: dict[str, Json] = field(default_factory=dict)


class Request(Struct, frozen=True, gc=False, eq=False, kw_only=True):
    """What the model was asked.

    `system` is the leading system message, lifted out of the chat in every dialect.
    `tools` is None where the source does not say which tools were offered, () where it says none.
    """

    model: str | None = None
    system: Message | None = None
    tools: tuple[Tool, ...] | None = None
    params: dict[str, Json] = field(default_factory=dict)
    context: Context | None = None


class Response(Struct, frozen=True, gc=False, eq=False, kw_only=True):
    """What it answered. `stop` is normalised, `stop_raw` the source's word."""

    message: Message | None = None
    id: str | None = None
    model: str | None = None
    stop: Stop | None = None
    stop_raw: str | None = None


class Usage(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Tokens. `input_tokens` is the total, cache included; the cache figures are parts of it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None


class Cost(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Money in USD, and where the figure is from.

    `source` is "recorded" (the trace says so) or "priced" (by us); `prices` names the price
    table and its version when priced.
    """

    usd: float
    source: Literal["recorded", "priced"]
    prices: str | None = None


class Level(StrEnum):
    """How completely a step's request is known, best first."""

    EXACT = "exact"
    REBUILT = "rebuilt"
    SUPPLIED = "supplied"
    PARTIAL = "partial"
    NONE = "none"

    @property
    def rank(self) -> int:
        """0 for exact up to 4 for none; the weakest of several is the largest."""
        return list(Level).index(self)


NO_SYSTEM = "system prompt not recorded"
NO_TOOLS = "tool definitions not recorded"
"""The two reasons that `arc attach` can lift; importers use these words."""


class Fidelity(Struct, frozen=True, gc=False, kw_only=True):
    """A level with the reasons that keep it from being better."""

    level: Level
    reasons: tuple[str, ...] = ()

    def also(self, reason: str) -> Fidelity:
        """The same level, for one reason more."""
        reasons = dict.fromkeys((*self.reasons, reason))
        return Fidelity(level=self.level, reasons=tuple(reasons))


class Place(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Where in the source a span was read: its own id there, message index, line (from 1)."""

    span: str | None = None
    message: int | None = None
    line: int | None = None


class Observation(Struct, frozen=True, gc=False, eq=False, kw_only=True):
    """What a tool returned: a view of the message that carried it.

    `block` is the index of the result's block in the message's content list, None where the
    whole message is the result.
    """

    message: Message
    block: int | None = None


class Span(Struct, frozen=True, gc=False, eq=False, kw_only=True, tag_field="kind"):
    """Fields every span has. `parent` None is the root; times are ns since the epoch, UTC."""

    id: str
    name: str
    parent: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    time_quality: TimeQuality = "exact"
    status: Status = "unset"
    error: str | None = None
    place: Place = field(default_factory=Place)
    extra: dict[str, Json] = field(default_factory=dict)

    @property
    def duration_ns(self) -> int | None:
        """None where either end is unknown or the clock ran backwards."""
        if self.start_ns is None or self.end_ns is None or self.end_ns < self.start_ns:
            return None
        return self.end_ns - self.start_ns


class AgentSpan(Span, frozen=True, eq=False, kw_only=True, tag="agent"):
    """An agent, sub-agent or follow-up turn; the model calls below it form its thread."""


class ModelCall(Span, frozen=True, eq=False, kw_only=True, tag="model"):
    """One call of a model. `agent` names the speaker where one thread has several."""

    request: Request = field(default_factory=Request)
    response: Response = field(default_factory=Response)
    usage: Usage | None = None
    cost: Cost | None = None
    fidelity: Fidelity = Fidelity(level=Level.NONE)
    agent: str | None = None


class ToolCall(Span, frozen=True, eq=False, kw_only=True, tag="tool"):
    """One call of a tool; `name` is the tool's.

    `asked_by` is the model span that asked, None for an orphan. `arguments` is the parsed value,
    None when it could not be parsed: `arguments_raw` then holds the text. `observation` is None
    when no result was recorded.
    """

    call_id: str | None = None
    asked_by: str | None = None
    arguments: Json | None = None
    arguments_raw: str | None = None
    observation: Observation | None = None
    effect: Effect = "unknown"


class Retrieval(Span, frozen=True, eq=False, kw_only=True, tag="retriever"):
    """A look-up that no model asked for by a tool call. `query` and `documents` as recorded."""

    query: Json | None = None
    documents: Json | None = None


class OtherSpan(Span, frozen=True, eq=False, kw_only=True, tag="other"):
    """Anything else worth its place in the tree; `operation` is the source's word for it."""

    operation: str = ""


AnySpan: TypeAlias = AgentSpan | ModelCall | ToolCall | Retrieval | OtherSpan


class Outcome(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """How the run ended and who said so; never inferred from the status of a span."""

    status: Literal["passed", "failed", "unknown"] = "unknown"
    value: float | str | None = None
    by: str | None = None


class SourceScore(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A score or annotation found in the source; `span` None scores the whole run."""

    name: str
    by: str
    span: str | None = None
    value: float | None = None
    label: str | None = None
    explanation: str | None = None


CAPS_LABEL, CAP_LABEL, STOP_LABEL = "arc.caps", "arc.cap", "arc.stop"
"""Labels of a run that was recorded under caps: these caps; the one that refused a call of it; the
order to stop that did."""


BEHAVIOR_LABEL, PRESENCE_LABEL, ELICITED_LABEL = "behavior", "behavior_presence", "elicited"
"""Labels of a run that was made to bring out a behaviour: its name, the judge's score of 1 to 10,
and whether that counts as elicited (`yes` or `no`, by the source's own threshold)."""

CITED = "citation"
"""The name of a score that only says: the source's judge cites this step."""


class Header(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What is known of a trace as a whole.

    `format` and `source_id` (with `item` in a file of several runs) make its identity; `run` is
    shared by several recordings of one run and defaults to the source id. `reference` holds gold
    actions and the like, as recorded. `reported_cost_usd` is the source's own total, kept apart.
    """

    format: str
    source_id: str
    item: str | None = None
    path: str | None = None
    run: str | None = None
    title: str | None = None
    task: str | None = None
    trial: str | None = None
    variant: str | None = None
    agent: str | None = None
    outcome: Outcome = Outcome()
    labels: dict[str, str] = field(default_factory=dict)
    reference: dict[str, Json] | None = None
    reported_cost_usd: float | None = None
    start_ns: int | None = None
    end_ns: int | None = None


FLEET = "fleet:"
"""How the path of a run begins that was read from a trace store; its name follows."""

GOLDEN = "arc.golden"
"""The label that names the golden set a run was measured on, as attributes and metadata of sources
do: `"<version> <digest>"`."""


class Batch(Struct, frozen=True, gc=False, eq=False, kw_only=True):
    """A piece of one trace: its header as known so far and some of its spans, in any order.

    The last batch of a trace has `last=True`; a later header replaces an earlier one.
    """

    header: Header
    spans: tuple[AnySpan, ...] = ()
    scores: tuple[SourceScore, ...] = ()
    last: bool = False


class Step(Struct, frozen=True, gc=False, eq=False, kw_only=True):
    """One model call in one thread, the tool calls it asked for, and their observations."""

    index: int
    thread: str
    ask: ModelCall
    acts: tuple[ToolCall, ...] = ()


class Trace(Struct, frozen=True, gc=False, eq=False, kw_only=True):
    """A recorded run as its readers see it: spans in source order, steps in time order.

    `loose` holds tool calls that no model call of the trace asked for.
    """

    id: str
    run: str
    header: Header
    spans: tuple[AnySpan, ...]
    steps: tuple[Step, ...]
    loose: tuple[ToolCall, ...] = ()
    prompt: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def start_ns(self) -> int | None:
        """When the run began, by its header, else its first span; None where neither says."""
        if self.header.start_ns is not None:
            return self.header.start_ns
        starts = (span.start_ns for span in self.spans if span.start_ns is not None)
        return min(starts, default=None)
