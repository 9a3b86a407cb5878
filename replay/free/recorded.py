"""The recorded calls of one thread, each with the moment at which it was made.

A moment is the write epoch: the calls that may have changed the world, in their order, from the
beginning to there. Between two turns it is a chain of them. Calls of one turn may have run in
any order or at once, and no recording tells; so a call made beside others of its turn that may
write has a moment of its own, that of exactly those neighbours before and after it. A read
alone, or beside other reads, has the moment at which its turn began. After a turn the chain has
grown by its writes, in the order of the calls, however they were spread over turns.

Of some tools it is known whether they write, of others it is guessed (`replay.effects`). So
there are two chains: in one a guessed read is a read, in the other it is a write. Where the
second chains of two moments are equal too, that they are the same rests on no guess.

Other threads change the world too. A sub-agent acts within the call that started it: that call
then counts as a write. Writes of any other thread of the trace enter the chain where they were
made, so that what was read after them answers no run in which they may not have happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct, structs

from replay import digests, messages
from replay.action import Act, defaults
from replay.compare import likeness
from replay.compare.likeness import Counted
from replay.compare.rules import Rules, arguments_of
from replay.effects import Effects, ToolEffect
from replay.trace import Effect, Json, Observation, Step, Tool, ToolCall, Trace
from replay.turns import blocks


class Moment(NamedTuple):
    """A state of the world by both chains: `guessed` takes guessed reads for reads, `certain` for
    writes."""

    guessed: str
    certain: str


BEGINNING = Moment(digests.digest("epoch"), digests.digest("epoch"))

Replaced: TypeAlias = Mapping[tuple[int, int], tuple[str, bool | None]]
"""By (step, place of the call in it): the text that takes the place of what the tool said, and
whether it is an error, None where that is as recorded."""


class Recorded(Struct, frozen=True, eq=False, kw_only=True):
    """A recorded call and what it was answered.

    `place` counts the calls of its step from 0. `identity` is equal for calls that are the same,
    `moment` for calls made in the same state of the world. `content` is the result as it can be
    sent and `text` as it reads, both None where it was not recorded; `edited` where the user
    replaced it. `offered` tells whether the tool was, when it was called.
    """

    step: int
    place: int
    call: Act
    identity: str
    moment: Moment
    offered: bool
    text: str | None = None
    content: Json = None
    is_error: bool | None = None
    edited: bool = False


class Turn(Struct, frozen=True, eq=False):
    """The calls of one step; `epoch` is where it began, `guessed` the tools called there, or by
    other threads since the turn before, that are only guessed to read."""

    step: int
    epoch: Moment
    calls: tuple[Recorded, ...]
    guessed: frozenset[str]


class Made(NamedTuple):
    """A call as it counts for moments: which it is, and what it does to the world."""

    identity: str
    effect: ToolEffect


class Identities:
    """Which recorded call is this one? The first that is the same, as `replay.compare` means it."""

    def __init__(self, tools: Mapping[str, Tool], rules: Rules) -> None:
        self._defaults = {name: defaults(tool) for name, tool in tools.items()}
        self._rules = rules
        self._firsts: dict[tuple[str, int], list[tuple[Counted, str]]] = {}

    def learn(self, call: Act) -> str:
        """The identity of a recorded call."""
        counted = self._counted(call)
        alike = self._firsts.setdefault(counted.key, [])
        known = _first(alike, counted)
        if known is None:
            known = _text(call)
            alike.append((counted, known))
        return known

    def of(self, call: Act) -> str:
        """The identity of any call: that of the recorded one it is the same as, else its own."""
        counted = self._counted(call)
        known = _first(self._firsts.get(counted.key, []), counted)
        return _text(call) if known is None else known

    def _counted(self, call: Act) -> Counted:
        """What counts of a call, its defaults filled in."""
        arguments = call.arguments
        if isinstance(arguments, dict):
            arguments = {**self._defaults.get(call.tool, {}), **arguments}
        place = arguments_of(call.tool, self._rules)
        counted = likeness.counted(arguments, place)
        raw = None if call.raw is None or place.ignored else call.raw.split()
        return counted._replace(text=digests.canonical([call.tool, counted.text, raw]))


def _first(alike: Iterable[tuple[Counted, str]], counted: Counted) -> str | None:
    return next((known for first, known in alike if first.like(counted)), None)


def _text(call: Act) -> str:
    return digests.canonical([call.tool, call.arguments, call.raw])


# --- moments


def in_turn(epoch: Moment, calls: Sequence[Made]) -> tuple[list[Moment], Moment]:
    """The moment of each call of a turn that began at an epoch, and the epoch after the turn."""
    chains = [
        (epoch.guessed, [None if each.effect.reads else each.identity for each in calls]),
        (
            epoch.certain,
            [
                None if each.effect.reads and not each.effect.guessed_read else each.identity
                for each in calls
            ],
        ),
    ]
    each = [Moment(*pair) for pair in zip(*(moments(*chain) for chain in chains), strict=True)]
    return each, Moment(*(_grown(*chain) for chain in chains))


def moments(epoch: str, writes: Sequence[str | None]) -> list[str]:
    """The moment of each call of a turn, by one chain; `writes` holds an identity, None for a
    read."""
    found = []
    for at in range(len(writes)):
        before = [each for each in writes[:at] if each is not None]
        after = [each for each in writes[at + 1 :] if each is not None]
        beside = (str(len(before)), *before, *after)
        found.append(digests.digest("moment", epoch, *beside) if before or after else epoch)
    return found


def _grown(epoch: str, writes: Sequence[str | None]) -> str:
    """The epoch of one chain after more writes."""
    for write in writes:
        epoch = epoch if write is None else digests.digest("epoch", epoch, write)
    return epoch


# --- reading a trace


def turns(
    trace: Trace, thread: str, identities: Identities, effects: Effects, replaced: Replaced
) -> tuple[tuple[Turn, ...], Moment]:
    """The turns of a thread that call something, and the epoch at its end."""
    found: list[Turn] = []
    epoch, guessed = BEGINNING, set[str]()
    outside = _outside(trace, thread, effects)
    for step in trace.steps:
        others = outside.get(step.index, [])
        for made in others:
            _, epoch = in_turn(epoch, [made])
        guessed |= _guessed(step, others)
        if step.thread != thread or not step.acts:
            continue
        known = [made_by(_act(call), identities.learn(_act(call)), effects) for call in step.acts]
        at, after = in_turn(epoch, known)
        calls = tuple(
            _recorded(step, place, known[place].identity, moment, replaced.get((step.index, place)))
            for place, moment in enumerate(at)
        )
        found.append(Turn(step.index, epoch, calls, frozenset(guessed | _guessed(step, known))))
        guessed.clear()
        epoch = after
    return tuple(found), epoch


def _guessed(step: Step, made: Sequence[Made]) -> set[str]:
    """The tools of a step's calls that are only guessed to read; `made` is empty or those calls."""
    return {
        call.name for call, each in zip(step.acts, made, strict=False) if each.effect.guessed_read
    }


def made_by(call: Act, identity: str, effects: Effects) -> Made:
    """A call as it counts for moments."""
    return Made(identity, effect_of(call, effects))


def effect_of(call: Act, effects: Effects) -> ToolEffect:
    """What a call does to the world."""
    return effects.of(call.tool, call.raw if call.arguments is None else call.arguments)


def _recorded(
    step: Step, place: int, identity: str, moment: Moment, new: tuple[str, bool | None] | None
) -> Recorded:
    call = step.acts[place]
    bare = Recorded(
        step=step.index,
        place=place,
        call=_act(call),
        identity=identity,
        moment=moment,
        offered=any(tool.name == call.name for tool in step.ask.request.tools or ()),
    )
    if call.observation is not None:
        result, content = messages.observed(call.observation), _content(call.observation)
        bare = structs.replace(bare, text=result.text, content=content, is_error=result.is_error)
    if new is None:
        return bare
    text, is_error = new
    is_error = bare.is_error if is_error is None else is_error
    return structs.replace(bare, text=text, content=text, is_error=is_error, edited=True)


def _act(call: ToolCall) -> Act:
    return Act(tool=call.name, arguments=call.arguments, raw=call.arguments_raw)


def _content(observation: Observation) -> Json:
    """A result as the Messages API takes it: its text, or blocks where it is more than that."""
    result = messages.observed(observation)
    given = observation.message.body.get("content")
    if result.block is not None and isinstance(given, list):
        given = given[result.block].get("content")
    if not isinstance(given, list):
        return result.text
    kept = [each.body for each in blocks(given, inside=True) if each.body is not None]
    if len(kept) == 1 and kept[0].keys() == {"type", "text"}:
        return kept[0]["text"]
    return kept or result.text


# --- other threads


def effects_of(trace: Trace, yours: Mapping[str, Effect]) -> Effects:
    """The effects of the tools of a trace; a tool whose sub-agent may write, writes."""
    calls = [span for span in trace.spans if isinstance(span, ToolCall)]
    offered = {id(step.ask.request.tools): step.ask.request.tools or () for step in trace.steps}
    found = Effects(calls, [tool for tools in offered.values() for tool in tools], yours)
    names = {call.id: call.name for call in calls}
    parents = {span.id: span.parent for span in trace.spans}
    acting = {
        names[above]
        for step in trace.steps
        if any(not effect_of(_act(call), found).reads for call in step.acts)
        for above in _above(step.thread, parents)
        if above in names
    }
    return found.writing(acting)


def _outside(trace: Trace, thread: str, effects: Effects) -> dict[int, list[Made]]:
    """By step, the calls of other threads that no tool call started."""
    tools = {span.id for span in trace.spans if isinstance(span, ToolCall)}
    parents = {span.id: span.parent for span in trace.spans}
    found: dict[int, list[Made]] = {}
    for step in trace.steps:
        if step.thread == thread or tools.intersection(_above(step.thread, parents)):
            continue
        calls = [_act(call) for call in step.acts]
        found[step.index] = [
            made_by(call, f"step {step.index}: {_text(call)}", effects) for call in calls
        ]
    return found


def _above(span: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    """A span and everything above it."""
    seen: set[str] = set()
    at: str | None = span
    while at is not None and at not in seen:
        seen.add(at)
        yield at
        at = parents.get(at)
