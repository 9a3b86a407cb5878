"""What every rule is given, and how a rule cites what it saw."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from functools import cached_property

from msgspec import structs

from replay.effects import Effects
from replay.trace import Outcome, Trace
from taxonomy.evidence.provenance import Value, values
from taxonomy.evidence.reading import Act, Reading, Turn, leaves
from taxonomy.evidence.replies import cut
from taxonomy.evidence.schemas import Schemas
from taxonomy.evidence.seen import Index
from taxonomy.findings import Evidence

_QUOTE = 240

_THOUGHTS = re.compile(r"thoughts?|reasoning|plan|analysis", re.I)


class Case:
    """One trace before the rules: its turns, what it had seen, and which values came from where."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.reading = Reading(trace)
        self.schemas = Schemas()

    def unjudged(self) -> Case:
        """The same case as it is where nobody knows how the run ended."""
        other = copy(self)
        other.trace = structs.replace(
            self.trace, header=structs.replace(self.trace.header, outcome=Outcome())
        )
        other.reading = copy(self.reading)
        other.reading.trace = other.trace
        return other

    @cached_property
    def index(self) -> Index:
        return Index(self.reading)

    @cached_property
    def effects(self) -> Effects:
        """What each tool does to the world, called or only offered."""
        calls = [act.span for act in self.reading.acts]
        return Effects(calls, self.reading.offers.values())

    @cached_property
    def grounding(self) -> dict[int, tuple[Value, ...]]:
        """The values of each step that need an origin, steps without one left out."""
        found = ((turn.index, tuple(values(self.index, turn))) for turn in self.reading.turns)
        return {step: named for step, named in found if named}


def statements(turn: Turn) -> Iterator[str]:
    """What a turn says: its text, its reasoning, and thoughts written as a call of a tool."""
    if turn.said:
        yield turn.said
    if turn.thought:
        yield turn.thought
    for act in turn.acts:
        for path, value in leaves(act.span.arguments):
            if isinstance(value, str) and _THOUGHTS.fullmatch(path):
                yield value


def called(act: Act, role: str = "asked") -> Evidence:
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


def said(turn: Turn, words: str) -> Evidence:
    """Words of a turn."""
    return Evidence(role="says", text=cut(words, _QUOTE), step=turn.index, span=turn.ask.id)
