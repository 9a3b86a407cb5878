"""A trace as the rules read it: each step with what was said, called, answered, and shown before.

A reading is made once a trace. What a speaker sees before it answers comes from people, from the
harness, and in a group chat from the other speakers.

Whether a call fits the tool as it was offered is answered only where the source recorded the
tools: `request.tools` None knows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from replay import digests
from replay.effects import guess, takes_program, words_of
from replay.messages import content_text, results, text, thinking
from replay.tool_errors import ASIDE, is_masked, is_terminal
from replay.trace import AgentSpan, Context, Json, Message, ModelCall, Step, Tool, ToolCall, Trace
from taxonomy.evidence.results import Reply, cut, read, report
from taxonomy.findings import Evidence

if TYPE_CHECKING:
    from jsonschema_rs import Validator


class Act(Struct, frozen=True, eq=False, kw_only=True):
    """One call of a step. `key` is equal for calls of one tool with the same arguments."""

    step: int
    span: ToolCall
    reply: Reply
    key: str

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def cut(self) -> bool:
        """Did the source cut or mask the arguments? What is missing may have been there."""
        return self.span.extra.get("cut") == "arguments" or is_masked(self.span.arguments_raw or "")


class Turn(Struct, frozen=True, eq=False, kw_only=True):
    """A step as rules read it.

    `heard` is what people and the harness said since the step before, `overheard` what the other
    speakers of a group chat did: to this one their words are observations. `observer` where the
    speaker is a terminal or a person rather than a model.
    """

    index: int
    thread: str
    ask: ModelCall
    said: str
    thought: str
    acts: tuple[Act, ...]
    heard: tuple[VisibleMessage, ...]
    observer: bool
    overheard: tuple[VisibleMessage, ...] = ()


_OBSERVATION = re.compile(
    r"\s*(?:call id: \S+\s*)?(?:observation|execution logs|exit ?code|error:|<returncode>|output:"
    r"|traceback \(most)",
    re.I,
)

_NO_CODE = re.compile(r"\s*there is no code from the last \d+ messages?\b", re.I)
"""How a terminal of a chat says that it ran nothing."""

WRITTEN = "its code"
"""The name of a program that a turn writes into its text for somebody else to run."""

_FENCED = re.compile(r"```[\w+-]*\n(.*?)(?:```|\Z)|<(code|execute\w*)>(.*?)(?:</\2>|\Z)", re.S)


class Reading:
    """The turns of a trace in step order, and the questions several rules ask of them.

    `acts` are all calls in step order; `last_called` and `last_worked` the steps at which each tool
    was last called, and last called with success.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.turns: tuple[Turn, ...] = tuple(_turns(trace.steps))
        self.acts: tuple[Act, ...] = tuple(act for turn in self.turns for act in turn.acts)
        self.last_called = {act.name: act.step for act in self.acts}
        self.last_worked = {act.name: act.step for act in self.acts if act.reply.failed is False}
        self.offers: dict[str, Tool] = {
            tool.name: tool for step in trace.steps for tool in step.ask.request.tools or ()
        }
        listed = any(
            span.extra.get("tool_names") for span in trace.spans if isinstance(span, AgentSpan)
        )
        self.has_tools = bool(self.acts) or bool(self.offers) or listed
        threads: dict[str, list[Turn]] = {}
        for turn in self.turns:
            threads.setdefault(turn.thread, []).append(turn)
        self.threads: dict[str, tuple[Turn, ...]] = {
            name: tuple(turns) for name, turns in threads.items()
        }

    @property
    def passed(self) -> bool:
        return self.trace.header.outcome.status == "passed"

    @property
    def failed(self) -> bool:
        return self.trace.header.outcome.status == "failed"

    @property
    def main(self) -> tuple[Turn, ...]:
        """The thread that the first step belongs to."""
        return self.threads[self.turns[0].thread] if self.turns else ()

    @cached_property
    def programs(self) -> dict[int, Act]:
        """The programs that turns wrote into their text and that were run, by step, as calls."""
        found = ((turn, program(turn.said), reply) for turn, reply in self.reports())
        return {turn.index: _written(turn, code, reply) for turn, code, reply in found if code}

    def calls(self, turn: Turn) -> tuple[Act, ...]:
        """The calls of a turn, the program in its text counted as one where it has no other."""
        written = self.programs.get(turn.index)
        return turn.acts if turn.acts or written is None else (written,)

    def reports(self) -> Iterator[tuple[Turn, Reply]]:
        """What came back to code a turn wrote into its text: a terminal's turn, or a message.

        In a group chat others may speak before the terminal does: what it shows came of the last
        code since it spoke before.
        """
        for turns in self.threads.values():
            wrote: Turn | None = None
            for turn, after in pairwise(turns):
                if turn.observer:
                    wrote = None
                    continue
                if program(turn.said):
                    wrote = turn
                words = "" if turn.acts else _shown(after)
                if words:
                    yield (wrote or turn) if after.observer else turn, report(words)


def _shown(after: Turn) -> str:
    """The output of code that a turn shows or was shown, "" for none."""
    if not after.observer:
        return _observation(after.heard)
    if _NO_CODE.match(after.said):
        return ""
    terminal = not is_person(after.ask.agent)
    return after.said if terminal or _OBSERVATION.match(after.said) else ""


def _turns(steps: tuple[Step, ...]) -> Iterator[Turn]:
    seen: set[int] = set()
    group = {name for step in steps if (name := speaker(step.ask.agent))}
    for step in steps:
        message = step.ask.response.message
        heard, overheard = list_visible_messages(step.ask, group, seen)
        yield Turn(
            index=step.index,
            thread=step.thread,
            ask=step.ask,
            said=text(message).strip() if message is not None else "",
            thought=thinking(message).strip() if message is not None else "",
            acts=tuple(_act(step.index, span) for span in step.acts),
            heard=heard,
            observer=observes(step.ask.agent),
            overheard=overheard,
        )


def program(text: str) -> str:
    """The code that stands fenced in a text, "" for none."""
    blocks = [match[1] or match[3] or "" for match in _FENCED.finditer(text)]
    return "\n".join(block.strip() for block in blocks if block.strip())


def _written(turn: Turn, code: str, reply: Reply) -> Act:
    call = ToolCall(id=turn.ask.id, name=WRITTEN, asked_by=turn.ask.id, arguments={"code": code})
    return Act(
        step=turn.index,
        span=call,
        reply=reply,
        key=f"{WRITTEN} {digests.canonical(call.arguments)}",
    )


def _observation(heard: tuple[VisibleMessage, ...]) -> str:
    """The message among those heard that reads like the output of code, "" for none."""
    return next((each.text for each in heard if _OBSERVATION.match(each.text)), "")


def _act(step: int, span: ToolCall) -> Act:
    arguments = span.arguments if span.arguments is not None else span.arguments_raw
    return Act(
        step=step, span=span, reply=read(span), key=f"{span.name} {digests.canonical(arguments)}"
    )


def mutates(span: ToolCall) -> bool | None:
    """Does the call change the world? By its recorded effect, else its name's verb, else None."""
    if span.effect != "unknown":
        return span.effect == "write"
    guessed = _guess(span.name)
    return None if guessed is None or takes_program(span.arguments) else guessed == "write"


@lru_cache(maxsize=10_000)
def _guess(tool: str) -> str | None:
    """The guess from a tool's name; an agent's list of what to do is its own, not the world. A run
    calls few tools, and each rule asks of each call."""
    return "read" if "todo" in words_of(tool) else guess(tool)


def leaves(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """(path, scalar) of every leaf of a JSON value; `flights.0.date`."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from leaves(entry, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from leaves(entry, f"{path}.{index}" if path else str(index))
    else:
        yield path, value


class VisibleMessage(Struct, frozen=True, eq=False, kw_only=True):
    """A message new to the model at a step, that is neither its own nor a tool's result."""

    role: str
    text: str


_NOT_HEARD = {"assistant", "tool", "function", "tool-call"}
_ROLES = _NOT_HEARD | {"user", "system", "developer"}
_PERSON = re.compile(r"(?:human|user)(?:[ _-]?proxy)?", re.I)


def list_visible_messages(
    ask: ModelCall, group: set[str], seen: set[int]
) -> tuple[tuple[VisibleMessage, ...], tuple[VisibleMessage, ...]]:
    """What is new to a speaker: of people and the harness, and of the others in its group."""
    heard: list[VisibleMessage] = []
    overheard: list[VisibleMessage] = []
    own = speaker(ask.agent)
    for message in unseen(ask.request.context, seen):
        words = own_text(message)
        name = message.body.get("name")
        named = name if isinstance(name, str) else message.role
        other = speaker(named) if named not in _ROLES else ""
        person = is_person(other)
        if not words or (own and other == own):
            continue
        if len(group) > 1 and other in group and not person:
            overheard.append(VisibleMessage(role=named, text=words))
        elif person or message.role not in _NOT_HEARD:
            heard.append(VisibleMessage(role="user" if person else message.role, text=words))
    return tuple(heard), tuple(overheard)


def speaker(name: str | None) -> str:
    """Who speaks, without what a name says of the occasion; "" where nobody is named."""
    return ASIDE.sub("", name or "").strip().lower()


def observes(agent: str | None) -> bool:
    """Is the speaker a terminal, or a person?"""
    return is_terminal(agent) or is_person(agent)


def is_person(agent: str | None) -> bool:
    """Is the speaker the person who asks?"""
    return bool(_PERSON.fullmatch(speaker(agent)))


def unseen(context: Context | None, seen: set[int]) -> list[Message]:
    """The messages of a context that `seen` does not hold, oldest first; they join it.

    `seen` holds the identities of messages, which the contexts of one trace share.
    """
    found: list[Message] = []
    while context is not None:
        if id(context) in seen:
            break
        seen.add(id(context))
        if id(context.message) not in seen:
            seen.add(id(context.message))
            found.append(context.message)
        context = context.parent
    found.reverse()
    return found


def own_text(message: Message) -> str:
    """The words of a message without the tool results it carries."""
    if not results(message):
        return text(message).strip()
    content = message.body.get("content")
    if not isinstance(content, list):
        return ""
    words = [
        block for block in content if isinstance(block, dict) and block.get("type") != "tool_result"
    ]
    return content_text(words).strip()


class Misfit(Struct, frozen=True, kw_only=True):
    """One way in which arguments break their schema: where, and the validator's words."""

    path: str
    why: str


class Schemas:
    """The validators of a trace's tools, each compiled once."""

    def __init__(self) -> None:
        self._compiled: dict[int, Validator | None] = {}
        self._kept: list[Tool] = []

    def misfits(self, turn: Turn, act: Act) -> tuple[Misfit, ...] | None:
        """How a call breaks its tool's schema, () where it fits, None where that is not known."""
        tool = offered(turn, act.name)
        if act.cut or act.span.arguments is None:
            return None
        if tool is None or not isinstance(tool.schema, dict):
            return None
        validator = self._validator(tool)
        if validator is None:
            return None
        return tuple(
            Misfit(path=".".join(map(str, error.instance_path)), why=cut(error.message))
            for error in validator.iter_errors(act.span.arguments)
        )

    def _validator(self, tool: Tool) -> Validator | None:
        if id(tool) not in self._compiled:
            self._kept.append(tool)  # an id is only its own while the tool lives
            self._compiled[id(tool)] = schema_validator(tool.schema)
        return self._compiled[id(tool)]


def offered(turn: Turn, name: str) -> Tool | None:
    """The tool of that name among those offered at a step, None where there is none or no list."""
    return next((tool for tool in turn.ask.request.tools or () if tool.name == name), None)


def unknown_tool(turn: Turn, act: Act) -> bool | None:
    """Was a tool called that was not offered? None where the offers are not recorded."""
    tools = turn.ask.request.tools
    return None if not tools else offered(turn, act.name) is None


def schema_validator(schema: Json) -> Validator | None:
    """A schema's validator, None where the schema itself is not valid: no verdict comes of it."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return None


_QUOTE = 240


def called(act: Act, role: str = "called") -> Evidence:
    """A call, as `name {arguments}`."""
    return Evidence(role=role, text=cut(act.key, _QUOTE), step=act.step, span=act.span.id)


def answered(act: Act) -> Evidence:
    """The reply to a call: an error where it failed."""
    return Evidence(
        role="error" if act.reply.failed else "observed",
        text=cut(act.reply.text, _QUOTE),
        step=act.step,
        span=act.span.id,
        place=act.name,
    )


def called_and_answered(act: Act) -> Iterator[Evidence]:
    """A call and, where something came back, the reply."""
    yield called(act)
    if act.reply.text:
        yield answered(act)


def quote_turn(turn: Turn, words: str) -> Evidence:
    """Words of a turn."""
    return Evidence(role="says", text=cut(words, _QUOTE), step=turn.index, span=turn.ask.id)
