"""Loop: the same call, or A→B→A, three times or more with nothing new between.

Two calls are the same where tool and arguments are, or where the arguments differ in a few letters
and in no number. That alone is polling or re-checking: it is a loop only where the replies say the
same too. A call that failed the same way again counts wherever it stands, one that worked only in
an unbroken cycle or a few calls apart; in either case only while nothing was changed in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from rapidfuzz import fuzz

from taxonomy.classes import FailureClass
from taxonomy.findings import Evidence, Finding
from taxonomy.reading import Act, Turn, mutates
from taxonomy.replies import cut
from taxonomy.rules.case import Case, called, said

NAME = "loop"
TIMES = 3
LONGEST_CYCLE = 4
ALIKE = 95.0
VARIATIONS = 8
"""So many failures in a row with the same error make a loop of calls that do differ."""

_DIGITS = re.compile(r"\d+")
_BLANK = re.compile(r"\\[nrt]")
_MARK = re.compile(r"\w+|[^\w\s]")
_WAITING = re.compile(r"running|in progress|pending|not ready|queued|please wait", re.I)
_NEAR = 6
_OPEN = 20
"""How many different calls with one error are held against the next: the latest."""

_LONG_SPEECH = 80
_COMPARED = 4_000


_Asked = tuple[str, str]
"""What was asked, and what came back."""


def find(case: Case) -> Iterator[Finding]:
    for turns in case.reading.threads.values():
        acts = [act for turn in turns for act in turn.acts]
        yield from _first(_cycles(acts), _rereadings(acts), _refusals(acts), _variations(acts))
        yield from _speeches(turns)


def same_call(left: Act, right: Act) -> bool:
    """Do two calls ask the same, give or take a few letters?"""
    if left.key == right.key:
        return True
    if left.name != right.name or _digits(left.key) != _digits(right.key):
        return False
    return _alike(left.key, right.key)


def same_reply(left: Act, right: Act) -> bool:
    """Did two calls bring the same answer? An unknown answer is equal to none."""
    if left.reply.failed is None or right.reply.failed is None:
        return False
    return left.reply.text == right.reply.text


def repeats(left: Act, right: Act) -> bool:
    """Is the later call the earlier one again, with no news in its reply?

    An acknowledgement is no news of a changed call (a list written anew is acknowledged in the
    same words), so a call that differs at all repeats only as a failure.
    """
    if not same_reply(left, right):
        return False
    if left.key == right.key or _marks(left.key) == _marks(right.key):
        return True
    return bool(right.reply.failed) and same_call(left, right)


@lru_cache(maxsize=2_000)
def _marks(key: str) -> list[str]:
    """The words and signs of a call, its white space left out."""
    return _MARK.findall(_BLANK.sub(" ", key))


@lru_cache(maxsize=2_000)
def _digits(key: str) -> list[str]:
    return _DIGITS.findall(key)


def _first(*found: Iterator[list[Act]]) -> Iterator[Finding]:
    """The finding of the run of repeats that begins earliest."""
    runs = [run for each in found for run in each]
    if runs:
        yield _finding(min(runs, key=lambda run: (run[1].step, -len(run))))


def _finding(run: Sequence[Act]) -> Finding:
    again = run[1]
    times = f"{len(run)} times"
    if not again.reply.failed:
        why = f"called {again.name} {times} for the same answer"
    elif repeats(run[0], again):
        why = f"{again.name} refused the same call {times}"
    else:
        why = f"{again.name} failed in the same words {times}"
    return Finding(
        failure=FailureClass.LOOP,
        step=again.step,
        span=again.span.id,
        why=why,
        rule=NAME,
        evidence=(
            called(run[0]),
            *(called(act, "repeats") for act in run[1:4]),
            Evidence(role="observed", text=again.reply.gist, step=run[-1].step, span=again.span.id),
        ),
    )


def _cycles(acts: Sequence[Act]) -> Iterator[list[Act]]:
    """Cycles of one to four calls gone through at least three times, as one call's repeats."""
    for period in range(1, LONGEST_CYCLE + 1):
        start = 0
        for at in range(period, len(acts) + 1):
            if at < len(acts) and repeats(acts[at - period], acts[at]):
                continue
            if at - start >= TIMES * period and not _waits(acts[start:at]):
                yield list(acts[start:at:period])
            start = at - period + 1


def _waits(run: Sequence[Act]) -> bool:
    """Polling of something still running: the answer is the same until it is done."""
    return all(_WAITING.search(act.reply.text) for act in run) and len(run) < 10


def _rereadings(acts: Sequence[Act]) -> Iterator[list[Act]]:
    """The same question with the same answer three times within a few calls of each other."""
    runs: dict[_Asked, list[tuple[int, Act]]] = {}
    for at, act in enumerate(acts):
        if act.reply.failed is not False:
            continue
        if mutates(act.span):
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
            runs = by_reply.setdefault((act.name, act.reply.text), [])
            run = next((run for run in runs[-_OPEN:] if repeats(run[-1], act)), None)
            if run is None:
                runs.append([act])
            else:
                run.append(act)
        elif act.reply.failed is False and mutates(act.span):
            yield from _refused(by_reply)
            by_reply = {}
    yield from _refused(by_reply)


def _refused(by_reply: dict[_Asked, list[list[Act]]]) -> Iterator[list[Act]]:
    yield from (run for runs in by_reply.values() for run in runs if len(run) >= TIMES)


def _variations(acts: Sequence[Act]) -> Iterator[list[Act]]:
    """Many calls of one tool in a row that fail in the same words."""
    run: list[Act] = []
    for act in acts:
        if (
            run
            and act.reply.failed
            and act.name == run[-1].name
            and act.reply.gist == run[-1].reply.gist
        ):
            run.append(act)
            continue
        if len(run) >= VARIATIONS:
            yield run
        run = [act] if act.reply.failed else []
    if len(run) >= VARIATIONS:
        yield run


def _speeches(turns: Sequence[Turn]) -> Iterator[Finding]:
    """The same long words three turns running, with no call between."""
    run: list[Turn] = []
    for turn in turns:
        if run and not turn.acts and _alike(turn.said, run[-1].said):
            run.append(turn)
            if len(run) == TIMES:
                yield Finding(
                    failure=FailureClass.LOOP,
                    step=run[1].index,
                    span=run[1].ask.id,
                    why=f"says the same {TIMES} times: “{cut(turn.said, 40)}”",
                    rule=NAME,
                    evidence=tuple(said(each, each.said) for each in run),
                )
        else:
            run = [turn] if len(turn.said) >= _LONG_SPEECH and not turn.acts else []


def _alike(left: str, right: str) -> bool:
    shorter, longer = sorted((len(left), len(right)))
    if shorter < 0.9 * longer:
        return False
    return fuzz.ratio(left[:_COMPARED], right[:_COMPARED], score_cutoff=ALIKE) >= ALIKE
