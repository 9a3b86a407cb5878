"""What speaks against a step: signs that it may be where the run broke.

Each sign is a step, a name and a phrase; what it weighs is for `candidates` to say. Names are the
rows of its table.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from replay.trace import AgentSpan, Json
from taxonomy.claims import assumes
from taxonomy.findings import Finding, StepScore
from taxonomy.reading import Reading, Turn, mutates
from taxonomy.replies import cut
from taxonomy.rules import cap_hit, gave_up
from taxonomy.rules.case import Case, statements
from taxonomy.scores import FRESH, GROUNDED, VERIFIED
from taxonomy.signals import Values, published_votes, ratio

GROWTH = 1.4
SPIKE = 1.5
"""How many times the step before a spike is; it must also be above the median of the run."""

_ENDINGS = {gave_up.NAME, cap_hit.NAME}
_STEPPED_IN = {"denied", "rejected", "interrupt", "interrupted", "rewind", "abandoned"}
_OBJECTS = re.compile(
    r"\b(?:that(?:'|’)s (?:not (?:what|right|correct)|wrong|incorrect)|not what i (?:asked|meant"
    r"|wanted)|misunderst\w+|mis-?understanding|mix-?up|you(?:'|’)?(?:re| are) (?:wrong|mistaken)"
    r"|i (?:already|have already) (?:told|said|gave|provided)|(?:was|is) incorrect"
    r"|you didn(?:'|’)t|you did not|still (?:not|wrong|doesn(?:'|’)t))\b",
    re.I,
)
_CUT_OFF = {"length", "context", "filter", "error"}
_CODE = "```"


class Sign(NamedTuple):
    """One sign against a step."""

    step: int
    name: str
    phrase: str


def signs(case: Case, found: Sequence[Finding], scores: Sequence[StepScore]) -> Iterator[Sign]:
    """Every sign against every step. `scores` are the rules' own."""
    yield from (Sign(finding.step, finding.rule, finding.why) for finding in found)
    first = next((each for each in found if each.rule not in _ENDINGS), None)
    if first is not None:  # findings come earliest first
        yield Sign(first.step, "first finding", first.why)
    yield from _rubric(scores)
    yield from _errors(case.reading)
    yield from _words(case.reading)
    yield from _people(case)
    if not case.reading.passed:
        yield from _course(case.reading)
    yield from _drops(scores)
    yield from _spikes(case.reading)


def _rubric(scores: Sequence[StepScore]) -> Iterator[Sign]:
    names = {
        GROUNDED: "ungrounded",
        FRESH: "repeat",
        VERIFIED: "unverified",
    }
    for score in scores:
        for item in score.items:
            if item.held is False and item.name in names:
                yield Sign(score.step, names[item.name], item.because)


def _errors(reading: Reading) -> Iterator[Sign]:
    """Failed calls, and code that a terminal reports as failed; the first stands out."""
    first = True
    for step, phrase in _failures(reading):
        yield Sign(step, "first error" if first else "error", phrase)
        first = False


def _failures(reading: Reading) -> Iterator[tuple[int, str]]:
    found = [
        (act.step, f"{act.name} failed: {cut(act.reply.gist, 60)}")
        for act in reading.acts
        if act.reply.failed
    ]
    for turn, reply in reading.reports():
        if reply.failed:
            found.append((turn.index, f"its code failed: {cut(reply.gist, 60)}"))
    yield from sorted(found, key=lambda failure: failure[0])


def _words(reading: Reading) -> Iterator[Sign]:
    """What a step says of itself: that it assumes, or that it was cut off."""
    for turn in reading.turns:
        words = None if turn.observer else next(filter(None, map(assumes, statements(turn))), None)
        if words is not None:
            yield Sign(turn.index, "assumption", f"assumes instead of looking: “{cut(words, 50)}”")
        if turn.ask.response.stop in _CUT_OFF:
            yield Sign(turn.index, "stop reason", f"stopped by {turn.ask.response.stop}")


def _people(case: Case) -> Iterator[Sign]:
    """Where somebody stepped in, by the source's own signals, or objected in the next message."""
    for span in case.trace.spans:
        signals = span.extra.get("signals") if isinstance(span, AgentSpan) else None
        for signal in signals if isinstance(signals, list) else ():
            kind = signal.get("kind") if isinstance(signal, dict) else None
            step = _step_at(case.reading, signal) if kind in _STEPPED_IN else None
            if step is not None:
                yield Sign(step, "user stepped in", f"a person stepped in: {kind}")
    for turns in case.reading.threads.values():
        for before, turn in pairwise(turns):
            for heard in turn.heard:
                if heard.role == "user" and _OBJECTS.search(heard.text[:600]):
                    phrase = f"the user objected: “{cut(heard.text, 50)}”"
                    yield Sign(before.index, "user objected", phrase)


def _step_at(reading: Reading, signal: dict[str, Json]) -> int | None:
    """The last step at or before the line that a signal names."""
    line = signal.get("line")
    if not isinstance(line, int):
        return None
    before = [turn.index for turn in reading.turns if 0 < (turn.ask.place.line or 0) <= line]
    return before[-1] if before else None


def _course(reading: Reading) -> Iterator[Sign]:
    """The first step that acts, and the last that changed something."""
    acting = (turn for turn in reading.turns if _acts(turn))
    first = next(acting, None)
    if first is not None:
        name = "first action" if first.acts else "first code"
        yield Sign(first.index, name, f"the {name} of the run")
    changed = [
        (turn.index, act.name)
        for turn in reading.turns
        for act in turn.acts
        if mutates(act.span) and act.reply.failed is False
    ]
    if changed:
        step, name = changed[-1]
        yield Sign(step, "last chance", f"the last change: {name}")


def _acts(turn: Turn) -> bool:
    code = _CODE in turn.said and not turn.observer
    return code or any(mutates(act.span) is not False for act in turn.acts)


def _drops(scores: Sequence[StepScore]) -> Iterator[Sign]:
    for step, votes in published_votes([score.value for score in scores]).items():
        yield Sign(scores[step].step, "score drop", votes[0].phrase)


def _spikes(reading: Reading) -> Iterator[Sign]:
    asks = [turn.ask for turn in reading.turns]
    tokens = [ask.usage.input_tokens if ask.usage is not None else None for ask in asks]
    yield from _above("context growth", tokens, GROWTH, "context")
    yield from _above("latency spike", [ask.duration_ns for ask in asks], SPIKE, "latency")
    costs = [ask.cost.usd if ask.cost is not None else None for ask in asks]
    yield from _above("cost spike", costs, SPIKE, "cost")


def _above(name: str, values: Values, limit: float, what: str) -> Iterator[Sign]:
    given = [value for value in values if value is not None]
    middle = statistics.median(given) if given else 0.0
    for step, value in enumerate(values):
        times = ratio(values, step)
        if value is not None and times is not None and times > limit and value > middle:
            yield Sign(step, name, f"{what} × {times:.1f}")
