"""Which facts is a model asked about, and what is the world's value of each, as of each step?

Facts are fields that observations showed (amounts, dates, states, identifiers) and that the run
hangs on: first those a contradiction is about, then the fields of a thing that a call changes by a
value of the same sort, then those that later calls or words use. A user may name another. A fact is
asked about from the step on at which it had been shown, and not while nobody knows it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from replay.errors import NotFound
from replay.tool_errors import decoded
from replay.trace import Json
from taxonomy.belief.contradictions import Contradiction
from taxonomy.belief.hanging import Hanging, sort_of, written
from taxonomy.belief.records import Records, Shown, Thing
from taxonomy.evidence.claims import STATUS_GROUPS
from taxonomy.evidence.moments import Moment, moments
from taxonomy.evidence.reading import leaves
from taxonomy.evidence.seen import fold, number
from taxonomy.findings import Evidence
from taxonomy.rules.case import Case

MOST = 4
"""Facts of one question, unless the user names one."""


class Fact(Struct, frozen=True, kw_only=True):
    """Something the model may believe. `about` names it to the model, `history` is what the world
    was shown to be, from which step on."""

    about: str
    history: tuple[Shown, ...]

    def world(self, step: int) -> Shown | None:
        """What was shown last before a step answered; None where nothing was, or where it was
        changed since and nobody looked."""
        last = next((each for each in reversed(self.history) if each.visible <= step), None)
        return None if last is None or last.value is None else last

    def source(self, step: int) -> Evidence | None:
        """Where the world's value stands."""
        shown = self.world(step)
        if shown is None:
            return None
        act = shown.act
        return Evidence(
            role="observed",
            text=f"{self.about}: {written(shown.value)}",
            step=act.step if act is not None else None,
            span=act.span.id if act is not None else None,
            place=act.name if act is not None else "you say so",
        )


def chosen(case: Case, found: Iterable[Contradiction], most: int = MOST) -> tuple[Fact, ...]:
    """The facts a run hangs on, the weightiest first."""
    records = Records(case.reading)
    hanging = Hanging(case.reading, records, found)
    weighed = [
        (-weight, history[0].visible, Fact(about=f"{field} of {thing}", history=history))
        for thing in records.things
        for field, history in _fields(records, thing)
        if (weight := hanging.weight(thing, field, history)) > 0
    ]
    weighed.sort(key=lambda each: each[:2])
    return tuple(fact for _, _, fact in weighed[:most])


def asked(case: Case, question: str, world: str) -> Fact:
    """A fact that the user names: its value as it is written, or `STEP:PATH` of a result.

    Raises NotFound where there is no such step, result or field.
    """
    step, colon, path = world.partition(":")
    if not colon or not step.isdecimal() or not path:
        return Fact(about=question, history=(Shown(visible=0, value=world, act=None),))
    acts = [act for act in case.reading.acts if act.step == int(step)]
    for act in acts:
        for each, leaf in leaves(decoded(act.reply.text)):
            if path in (each, each.rpartition(".")[2]):
                shown = Shown(visible=act.step + 1, value=leaf, act=act)
                return Fact(about=question, history=(shown,))
    known = [each for act in acts for each, _ in leaves(decoded(act.reply.text))]
    hint = f"it has {', '.join(known[:12])}" if known else "no result of that step is JSON"
    raise NotFound("field in the results of a step", world, hint=hint)


def agrees(said: str, value: Json) -> bool:
    """Is what the model says the world's value: the same number, moment, state or words?"""
    shown = written(value)
    if fold(said).strip(" .#\"'") == fold(shown):
        return True
    mine, worlds = next(moments(said), None), next(moments(shown), None)
    if mine is not None and worlds is not None:
        return _overlap(mine, worlds)
    digits = number(fold(said))
    if digits is not None:
        return digits == number(fold(shown))
    states = STATUS_GROUPS.get(fold(said)), STATUS_GROUPS.get(fold(shown))
    return states[0] is not None and states[0] == states[1]


def _overlap(one: Moment, other: Moment) -> bool:
    """May both mean the same instant? A date alone is the whole day, without the next one's
    first instant."""
    if one.at == other.at:
        return True
    return one.at < other.latest and other.at < one.latest


def _fields(records: Records, thing: Thing) -> Iterator[tuple[str, tuple[Shown, ...]]]:
    """The fields of a thing that are facts of the world, with their history."""
    for name in dict.fromkeys(name for each in records.of(thing) for name in each.fields):
        history = records.history(thing, name)
        values = [each.value for each in history if each.value is not None]
        if values and name.rpartition(".")[2] != thing.name and sort_of(name, values[0]):
            yield name, history
