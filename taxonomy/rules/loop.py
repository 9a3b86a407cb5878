"""Loop: the same call, or A→B→A, three times or more with nothing new between.

Two calls are the same where tool and arguments are, or where the arguments differ in a few letters
and in no number. That alone is polling or re-checking: it is a loop only where the replies say the
same too, or where no reply was recorded that could tell otherwise. A call that failed the same way
again counts wherever it stands, one that worked only in an unbroken cycle or a few calls apart; in
either case only while nothing was changed in between. Trying again after an error that says it is
for the moment only is patience, up to a bound. A program in a turn's text is a call like others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from replay.effects import takes_program
from taxonomy.classes import FailureClass
from taxonomy.evidence.reading import Act, Reading, Turn, called, mutates
from taxonomy.evidence.results import Kind
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import (
    Rule,
    RuleContext,
    brought_again,
    repeated_speeches,
    repeats,
    reply_words,
    same_call,
    speeches,
)

__all__ = ["NAME", "Loop", "find", "finding", "loops", "repeated"]

NAME = "loop"
TIMES = 3
LONGEST_CYCLE = 4
VARIATIONS = 8
"""So many failures with the same short error make a loop of calls that do differ."""

STUCK = 4
"""So many are enough where the error says more than a few words."""

MANY = 5
"""A loop so many times as long as another is the one to look at."""

_DIGITS = re.compile(r"\d+")
WAITING = re.compile(r"running|in progress|pending|not ready|queued|please wait", re.I)
_STATUS = re.compile(r"wait|sleep|poll|status|progress|check|output|refresh", re.I)
"""Tools that are called again to see how something goes."""

_ERROR_CLASS = re.compile(r"^(?:\w+(?:error|exception)|error[\w ]*):\s*")
_TELLING = 4
_CLOSE = 3

_NEAR = 6
_OPEN = 20
"""How many different calls with one error are held against the next: the latest."""

PARTLY_KNOWN = 0.6
"""Confidence where the source does not hold all of what was asked or came back."""

RETRIES = 5
"""So many tries against an error that says it will pass are no loop."""

POLLS = 10
"""So many looks at something that still runs are a loop."""


_Asked = tuple[str, str]
"""What was asked, and what came back."""


class Loop(NamedTuple):
    """A loop as it is reported everywhere: rule, rubric, costs, contradictions.

    `calls` are the repeats of one call. `again` has a call of each step that went through the loop
    again, behind the one it repeats: the steps of the repeats, and between them those whose every
    call brings nothing new.
    """

    calls: Sequence[Act]
    again: Sequence[tuple[Act, Act]]

    @property
    def why(self) -> str:
        """What it is, in a phrase."""
        act, times = _later(self.calls), f"{len(self.calls)}×"
        if _partly_known(self.calls):
            return f"called {act.name} {times} with the same arguments, as far as recorded"
        if not act.reply.failed:
            return f"called {act.name} {times} with the same result"
        if all(repeats(self.calls[0], each) for each in self.calls[1:]):
            return f"{act.name} rejected the same call {times}"
        return f"{act.name} failed {times} with the same error"

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(act.step for _, act in self.again)


def find(case: RuleContext) -> Iterator[Finding]:
    for turns in case.reading.threads.values():
        found = loops(case.reading, turns)
        if found:
            yield finding(found[0])
        yield from repeated_speeches(case.reading, turns, NAME)


def loops(reading: Reading, turns: Sequence[Turn]) -> list[Loop]:
    """The loops of a thread, none sharing a call with another: the one to look at, then the longest
    first. What is a loop only by its errors is none of a run that passed."""
    found = runs(reading, turns, stuck=not reading.passed)
    if not found:
        return []
    named = _to_look_at(found)
    before = {act.span.id: earlier for earlier, act in brought_again(_calls(turns))}
    before |= {act.span.id: was for run in runs(reading, turns) for was, act in pairwise(run)}
    made: list[Loop] = []
    calls: set[str] = set()
    steps: set[int] = set()
    for run in sorted(found, key=lambda each: (each is not named, -len(each))):
        each = Loop(run, tuple(_again_of(turns, run, before)))
        if calls.isdisjoint(act.span.id for act in run) and not steps.issuperset(each.steps):
            calls |= {act.span.id for act in run}
            steps |= {*each.steps}
            made.append(each)
    return made


def _calls(turns: Sequence[Turn]) -> Iterator[Act]:
    return (act for turn in turns for act in turn.acts)


def _again_of(
    turns: Sequence[Turn], run: Sequence[Act], before: Mapping[str, Act]
) -> Iterator[tuple[Act, Act]]:
    own = {act.step: (was, act) for was, act in pairwise(run) if was.step < act.step}
    for turn in turns:
        within = run[0].step < turn.index < run[-1].step and bool(turn.acts)
        if turn.index in own:
            yield own[turn.index]
        elif within and all(act.span.id in before for act in turn.acts):
            yield before[turn.acts[0].span.id], turn.acts[0]


def runs(reading: Reading, turns: Sequence[Turn], *, stuck: bool = True) -> list[list[Act]]:
    """Every run of repeats among the calls of a thread, each in its order; they may overlap.

    What a loop is for the rule is one for every other judgement: rubric, costs, contradictions.
    `stuck` ones, which differ and run into the same error, are no loop of a run that passed.
    """
    acts = [act for turn in turns for act in reading.calls(turn)]
    found = [*_cycles(acts), *_rereadings(acts), *_refusals(acts)]
    if stuck:
        found += _variations(acts)
    return [run for run in found if _in_turn(run)]


def repeated(reading: Reading) -> dict[str, str]:
    """Which calls of all runs of repeats bring nothing new, and why, by their spans; a turn that
    says the same again stands under its model's."""
    found: dict[str, str] = {}
    for turns in reading.threads.values():
        for run in runs(reading, turns):
            for earlier, act in pairwise(run):
                found.setdefault(act.span.id, _as_before(earlier, act))
        for told in speeches(reading, turns):
            for before, turn in pairwise(told):
                found.setdefault(turn.ask.id, f"repeats the message of step {before.index}")
    return found


def _as_before(earlier: Act, act: Act) -> str:
    if act.reply.failed and not same_call(earlier, act):
        return f"{act.name} fails with the same error as at step {earlier.step}"
    return f"{act.name} repeats step {earlier.step}"


def _again(left: Act, right: Act) -> bool:
    """Does a call repeat another, as far as anybody knows?

    Where neither reply was recorded, nothing tells that the very same call brought news; a tool
    that is called again to see how something goes gets the benefit of the doubt, and so do calls
    whose arguments the source cut: what is missing may differ.
    """
    unknown = left.reply.failed is None and right.reply.failed is None
    if unknown and left.span.observation is not None:  # the source masks what it holds
        return False
    if unknown:
        whole = not left.cut and not right.cut
        return whole and left.key == right.key and not _STATUS.search(right.name)
    return repeats(left, right)


def _to_look_at(found: Sequence[list[Act]]) -> list[Act]:
    """The run of repeats that begins earliest; one that the run got out of gives way to one many
    times as long."""
    longest = max(map(len, found))
    long = (run for run in found if len(run) * MANY >= longest)
    return min(long, key=lambda run: (run[0].step, -len(run)))


def _in_turn(run: Sequence[Act]) -> bool:
    """Were the calls made one after another, so that each could learn from the last?"""
    return len({act.step for act in run}) >= TIMES


def _later(run: Sequence[Act]) -> Act:
    """The first call of a later step than the run begins at."""
    return next(act for act in run if act.step > run[0].step)


def _partly_known(run: Sequence[Act]) -> bool:
    return _later(run).reply.failed is None or any(act.cut for act in run)


def finding(found: Loop) -> Finding:
    """What the rule says of a loop, at the step that begins it again."""
    run = found.calls
    again = _later(run)
    unknown = _partly_known(run)
    return Finding(
        failure=FailureClass.LOOP,
        step=again.step,
        span=again.span.id,
        why=found.why,
        rule=NAME,
        confidence=PARTLY_KNOWN if unknown else None,
        evidence=(
            called(run[0]),
            *(called(act, "repeats") for act in run[1:4]),
            *_answer(run),
        ),
    )


def _answer(run: Sequence[Act]) -> Iterator[Evidence]:
    """What came back every time, where it was recorded."""
    last = run[-1]
    if last.reply.failed is not None:
        yield Evidence(
            role="error" if last.reply.failed else "observed",
            text=last.reply.gist or "(nothing)",
            step=last.step,
            span=last.span.id,
        )


def _cycles(acts: Sequence[Act]) -> Iterator[list[Act]]:
    """Cycles of one to four calls gone through at least three times, as one call's repeats."""
    for period in range(1, LONGEST_CYCLE + 1):
        start = 0
        for at in range(period, len(acts) + 1):
            if at < len(acts) and _again(acts[at - period], acts[at]):
                continue
            if at - start >= TIMES * period and not _waits(acts[start:at]):
                yield list(acts[start:at:period])
            start = at - period + 1


def _waits(run: Sequence[Act]) -> bool:
    """Polling of something still running, or patience with what says that it will pass."""
    if all(map(_passing, run)):
        return len(run) <= RETRIES + 1
    return all(WAITING.search(act.reply.text) for act in run) and len(run) < POLLS


def _passing(act: Act) -> bool:
    """Did a call fail for the moment only? A program that timed out will time out again."""
    late = act.reply.kind is Kind.TIMEOUT and not takes_program(act.span.arguments)
    return bool(act.reply.failed) and (act.reply.kind is Kind.TRANSIENT or late)


def _rereadings(acts: Sequence[Act]) -> Iterator[list[Act]]:
    """The same question, with the same answer or none known, three times within a few calls."""
    runs: dict[_Asked, list[tuple[int, Act]]] = {}
    for at, act in enumerate(acts):
        if act.reply.failed or (act.reply.failed is None and not _again(act, act)):
            continue
        if act.reply.failed is False and mutates(act.span):
            yield from _long_enough(runs)
            runs = {}
            continue
        run = runs.setdefault((act.key, act.reply.text), [])
        if run and at - run[-1][0] > _NEAR:
            run.clear()
        run.append((at, act))
    yield from _long_enough(runs)


def _long_enough(runs: dict[_Asked, list[tuple[int, Act]]]) -> Iterator[list[Act]]:
    for run in runs.values():
        acts = [act for _, act in run]
        if len(acts) >= TIMES and not _waits(acts):
            yield acts


def _refusals(acts: Sequence[Act]) -> Iterator[list[Act]]:
    """A call refused in the same words three times, nothing having been changed between."""
    by_reply: dict[_Asked, list[list[Act]]] = {}
    for act in acts:
        if act.reply.failed:
            open_ = by_reply.setdefault((act.name, reply_words(act)), [])
            run = next((run for run in open_[-_OPEN:] if repeats(run[-1], act)), None)
            if run is None:
                open_.append([act])
            else:
                run.append(act)
        elif act.reply.failed is False and mutates(act.span):
            yield from _refused(by_reply)
            by_reply = {}
    yield from _refused(by_reply)


def _refused(by_reply: dict[_Asked, list[list[Act]]]) -> Iterator[list[Act]]:
    for runs in by_reply.values():
        yield from (run for run in runs if len(run) >= TIMES and not _waits(run))


def _variations(acts: Sequence[Act]) -> Iterator[list[Act]]:
    """Calls of one tool, however they differ, that keep running into the same error."""
    runs: dict[_Asked, list[tuple[int, Act]]] = {}
    for at, act in enumerate(acts):
        if not act.reply.failed:
            continue
        run = runs.setdefault((act.name, _error(act)), [])
        if run and at - run[-1][0] > _CLOSE:
            yield from _stuck(run)
            run.clear()
        run.append((at, act))
    for run in runs.values():
        yield from _stuck(run)


def _stuck(run: Sequence[tuple[int, Act]]) -> Iterator[list[Act]]:
    acts = [act for _, act in run]
    enough = STUCK if len(_error(acts[0]).split()) >= _TELLING else VARIATIONS
    if len({act.step for act in acts}) >= enough and not _waits(acts):
        yield acts


def _error(act: Act) -> str:
    """What an error says, without its class and its numbers."""
    return _DIGITS.sub("#", _ERROR_CLASS.sub("", act.reply.gist.lower()))


RULE = Rule(
    name=NAME,
    find=find,
    shown="repeated calls",
    denies="fresh",
    advice="Do not repeat that call; make a different one.",
)
