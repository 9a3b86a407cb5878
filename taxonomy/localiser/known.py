"""Where the gold of a task is known, it shows where a run that did not pass left it.

The first call that gold does not ask for shows it: one that changed something or was to, with its
wrong arguments where it has a counterpart in gold, or one that left to a person what gold still
wanted done. The decision comes before the action: where a rule finds something wrong in what the
run said just before the call, that step is first. A proposal of the wrong value to a user is the
next candidate: it may have been a fair one. Where gold calls were never made, that is the step
which refused what they do, or handed it over, else the last at which they could still have come.

What is said in the end is no candidate: it differs because something went wrong before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from replay.effects import words_of
from replay.trace import Json
from taxonomy.classes import Attribution, FailureClass
from taxonomy.evidence.endings import is_hand_over, refusal
from taxonomy.evidence.reading import Reading, leaves
from taxonomy.evidence.results import cut
from taxonomy.findings import Candidate, Finding, GoldComparison, GoldDifference, Signal

GOLD = "gold"
"""The sign of a difference from gold. It is no feature: it is not weighed against others."""

MOST = 3


BEFORE = 3
"""So many steps before a call a decision may stand that it carries out."""

_DECISIONS = frozenset(FailureClass) - {FailureClass.LOOP, FailureClass.GAVE_UP}


def known_first(
    reading: Reading,
    gold: GoldComparison | None,
    found: Sequence[Finding],
    others: Sequence[Candidate],
) -> tuple[Candidate, ...]:
    """The candidates that gold shows, then the others, three at most; a run that passed has none of
    gold: it passed another way. A step that both name has the signs of both. Those of gold weigh as
    much as the heaviest other."""
    shown = {} if gold is None or reading.passed else _by_step(reading, gold, found)
    also = {each.step: each for each in others}
    most = max([1.0, *(each.weight for each in others)])
    known = [
        Candidate(
            step=step,
            weight=most,
            why=why,
            signals=(
                Signal(name=GOLD, weight=1.0, phrase=why),
                *(also[step].signals if step in also else ()),
            ),
        )
        for step, why in shown.items()
    ]
    return (*known, *(each for each in others if each.step not in shown))[:MOST]


def _by_step(reading: Reading, gold: GoldComparison, findings: Sequence[Finding]) -> dict[int, str]:
    """The steps that gold shows, first the one to look at first, each with the difference."""
    found: dict[int, str] = {}
    for step, why in _signs(reading, gold, findings):
        found.setdefault(step, why)
    return found


def _signs(
    reading: Reading, gold: GoldComparison, findings: Sequence[Finding]
) -> Iterator[tuple[int, str]]:
    missing = [each for each in gold.differences if each.kind == "missing"]
    if all(each.kind == "answer" for each in gold.differences):
        return  # its calls came to what gold has, whatever failed on the way
    wrong = sorted(_wrong_calls(gold, missing), key=lambda each: each[0])
    for step, found in wrong[:1]:
        decision = _decision(findings, step)
        if decision is not None:
            yield decision.step, f"{decision.why}, then {_phrase(found)}"
        yield step, _phrase(found, failed=found in gold.failed)
        proposed = _proposal(reading, step, found)
        if proposed is not None:
            yield proposed
    yield from _last_chance(reading, missing)
    for step, found in wrong[1:]:
        yield step, _phrase(found, failed=found in gold.failed)


def _wrong_calls(
    gold: GoldComparison, missing: Sequence[GoldDifference]
) -> Iterator[tuple[int, GoldDifference]]:
    """Calls that gold does not ask for as they were made, with their steps."""
    for each in (*gold.differences, *gold.failed):
        gave_away = is_hand_over(each.tool) and bool(missing)
        made = each.kind in ("wrong argument", "extra", "out of order")
        if each.step is not None and made and (gave_away or each.writes is not False):
            yield each.step, each


_SHOWN = 120
"""Characters of a call in a phrase."""


def _decision(findings: Sequence[Finding], step: int) -> Finding | None:
    """The first thing that a rule finds wrong just before a step, by the agent's own doing."""
    return next(
        (
            each
            for each in findings
            if step - BEFORE <= each.step < step
            and not each.is_hint
            and each.failure in _DECISIONS
            and each.attribution in (None, Attribution.AGENT)
        ),
        None,
    )


def _phrase(found: GoldDifference, *, failed: bool = False) -> str:
    if found.kind == "wrong argument":
        return f"{found.tool}{', failed' if failed else ''} · {found.line}"
    return cut(f"failed {found.line}" if failed else found.line, _SHOWN)


def _proposal(reading: Reading, step: int, found: GoldDifference) -> tuple[int, str] | None:
    """The last step before a call that told a user one of its wrong values, which the user had not
    given; None where none did."""
    values = [value for each in found.arguments for value in _words(each.was)]
    turns = [turn for turn in reading.main if turn.index <= step and not turn.observer]
    heard = "\n".join(heard.text for turn in turns for heard in turn.heard)
    chosen = [value for value in values if not _says(heard, value)]
    for turn in reversed(turns):
        told = next((each for each in chosen if _says(turn.said, each)), None)
        if told is not None and not turn.acts and turn.index < step:
            return turn.index, f"proposes {cut(told, 40)}, not in gold, before {found.tool}"
    return None


_SHORTEST = 3
"""A value of fewer signs stands in too many texts to say anything."""


def _words(value: Json) -> Iterator[str]:
    for _, each in leaves(value):
        if isinstance(each, str | int | float) and not isinstance(each, bool):
            text = str(each).strip()
            if len(text) >= _SHORTEST:
                yield text


def _says(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.I) is not None


def _last_chance(reading: Reading, missing: Sequence[GoldDifference]) -> Iterator[tuple[int, str]]:
    """The step that decided against gold calls, or the last at which they could have come."""
    turns = [turn for turn in reading.main if not turn.observer]
    refusals = [(turn.index, said) for turn in turns if (said := refusal(turn)) is not None]
    told = {step: f"refused: “{cut(said, 50)}”" for step, said in refusals}
    for each in missing:
        verb = next(iter(words_of(each.tool)), each.tool)
        step = next((step for step, said in refusals if verb in said.lower()), None)
        if step is not None:
            yield step, cut(f"{told[step]}; {each.line}", _SHOWN)
            return
    last = max(missing, key=lambda each: each.latest or 0, default=None)
    if last is None or last.latest is None:
        return
    if refusals:
        step, _ = refusals[-1]
        yield step, cut(f"{told[step]}; {last.line}", _SHOWN)
    else:
        yield last.latest, cut(f"last chance for a {last.line}", _SHOWN)
