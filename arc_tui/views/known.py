"""What is known of a run for certain, before any rule or guess: where it differs from the gold of
its task, and which checks failed.

One fact is one line, whatever it rests on; the lines stand first wherever a run is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import msgspec
from msgspec import UNSET, Struct, structs

from arc_tui.ui import format
from arc_tui.views.evidence import Kind
from replay.trace import CITED, PRESENCE_LABEL, SourceScore
from taxonomy.findings import (
    ANSWER_SCORERS,
    CheckReport,
    Diagnosis,
    FailedCheck,
    GoldComparison,
    GoldDifference,
)


class KnownLine(Struct, frozen=True, kw_only=True):
    """A fact of a run: what it rests on (`kind`), the step at which it shows (None: of the run as a
    whole), of what it is said (a tool), the fact, and below it what it is made of, by name."""

    kind: Kind
    fact: str
    step: int | None = None
    subject: str = ""
    details: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Subject and fact."""
        return " · ".join(filter(None, (self.subject, self.fact)))

    @property
    def line(self) -> str:
        """`gold · step 3 · refund_order · amount: expected 5, was 7`."""
        place = "" if self.step is None else f"step {self.step}"
        return " · ".join(filter(None, (self.kind, place, self.text)))


def known_of(said: Diagnosis | None, outcome: str) -> tuple[KnownLine, ...]:
    """What is known of a run with that diagnosis and outcome; () where that is nothing."""
    if said is None:
        return ()
    gold = () if said.gold is None else gold_lines(said.gold, listed=outcome != "passed")
    return (*gold, *check_lines(_beside_gold(said)))


def source_lines(
    scores: Sequence[SourceScore], steps: Mapping[str, int], elicited: str
) -> Iterator[KnownLine]:
    """What the judge of the run's source says of a behaviour, and the steps that it cites; `steps`
    by span, `elicited` as the source says it."""
    for each in scores:
        if each.name == PRESENCE_LABEL and each.label is not None:
            yield KnownLine(
                kind="score",
                fact=f"{each.name} {each.label}, {elicited} · {format.one_line(each.by)}",
                details=(("because", each.explanation),) if each.explanation else (),
            )
    for each in scores:
        step = steps.get(each.span or "")
        if each.name == CITED and step is not None and each.explanation is not None:
            fact = f"cited by its source's judge: {format.one_line(each.explanation)}"
            yield KnownLine(kind="score", step=step, fact=format.cut(fact, SHOWN))


def _beside_gold(said: Diagnosis) -> CheckReport:
    """The failing checks without those that say again how the answer differs from gold."""
    if said.gold is None or not any(each.kind == "answer" for each in said.gold.differences):
        return said.checks
    others = (each for each in said.checks.failed if each.runner not in ANSWER_SCORERS)
    return structs.replace(said.checks, failed=tuple(others))


def gold_lines(gold: GoldComparison, *, listed: bool = True) -> tuple[KnownLine, ...]:
    """How much of gold a run kept, and each difference where they are to be `listed`: of a run that
    passed they are only counted, as it passed another way."""
    return (_summary(gold, listed=listed), *(_differences(gold) if listed else ()))


def _summary(gold: GoldComparison, *, listed: bool) -> KnownLine:
    many = len(gold.differences)
    fact = f"{gold.matched} of {format.count(gold.gold, 'call')} made" if gold.gold else ""
    if not fact or (many and not listed):
        differences = format.count(many, "difference") if many else "no difference"
        unlisted = " not listed, as the run passed" if many and not listed else ""
        fact = ", ".join(filter(None, (fact, f"{differences}{unlisted}")))
    return KnownLine(kind="gold", fact=f"{fact} · {whose(gold)}")


def whose(gold: GoldComparison) -> str:
    """Whose gold it is, and whether it was there before the run."""
    if not gold.own:
        return "gold of the source"
    late = {
        True: "hindsight: first seen after the run began",
        False: "first seen before the run",
        None: "unknown if first seen before the run",
    }[gold.hindsight]
    if "actions" in gold.own or not gold.gold:
        return f"your gold, {late}"
    return f"gold of the source; answer: your gold, {late}"


SHOWN = 120
"""Characters of a call in a line; where it is longer, all of it stands below."""


def _differences(gold: GoldComparison) -> Iterator[KnownLine]:
    """By step, a missing call and what was not said last."""
    every = (*gold.differences, *gold.failed)
    for each in sorted(every, key=lambda found: (found.step is None, found.step or 0)):
        failed = each in gold.failed
        wrong = each.kind == "wrong argument"
        fact = format.one_line(each.line)
        if failed and not wrong:
            fact = f"failed {fact}"
        yield KnownLine(
            kind="gold",
            step=each.step,
            subject=format.one_line(f"{each.tool}{', failed' if failed else ''}") if wrong else "",
            fact=fact if wrong or each.kind == "answer" else format.cut(fact, SHOWN),
            details=tuple(_details(each)),
        )


def _details(found: GoldDifference) -> Iterator[tuple[str, str]]:
    """The arguments that the line does not name, and the call and that of gold; of gold what a
    phrase cuts in full, because no other page has it."""
    if found.kind == "answer":
        return
    yield from (("argument", each.phrase) for each in found.unnamed)
    if found.kind == "missing" and found.latest is not None:
        yield "last chance", f"step {found.latest}"
    whole = found.kind == "wrong argument" or len(found.line) > SHOWN
    if found.made is not None and whole:
        yield "call", found.made
    cut = found.gold is not None and "…" in found.gold and found.gold_arguments is not UNSET
    if cut:
        yield "gold", f"{found.tool} {msgspec.json.encode(found.gold_arguments).decode()}"
    elif found.gold is not None and whole:
        yield "gold", found.gold


SINGLY = 5
"""So many checks that one call is joined to have a line each; more share one."""

NAMED = 10
"""So many of those that share a line are named there, the others counted: the details have all."""


def check_lines(checks: CheckReport) -> tuple[KnownLine, ...]:
    """How many checks failed, the edit after which they went red, and each check at the step that
    wrote what it names, or else that showed it."""
    lines = list(_check_summary(checks))
    if checks.red_edit is not None:
        lines.append(
            KnownLine(
                kind="check",
                step=checks.red_edit.step,
                fact=format.one_line(checks.red_edit.phrase),
            )
        )
    for _, group in groupby(checks.failed, key=_cause):
        alike = list(group)
        if len(alike) > SINGLY:
            lines.append(_join(alike))
        else:
            lines += [
                KnownLine(
                    kind="check",
                    step=_step(each),
                    fact=format.one_line(each.phrase),
                    details=tuple(_check_details(each)),
                )
                for each in alike
            ]
    return tuple(lines)


def _check_summary(checks: CheckReport) -> Iterator[KnownLine]:
    """How many failed, by where that was read; one that has its line needs no count."""
    if len(checks.failed) + checks.unnamed < 2:
        return
    counted = Counter(map(_place, checks.failed))
    places = [f"{many} in {place}" for place, many in counted.items()]
    if checks.unnamed:
        places.append(f"{checks.unnamed} not named by what ran them")
    place = next(iter(counted), "")
    many = format.count(len(checks.failed) + checks.unnamed, "check")
    where = f" in {place}" if len(places) == len(counted) == 1 else f": {', '.join(places)}"
    yield KnownLine(kind="check", fact=f"{many} failed{where}")


def _place(check: FailedCheck) -> str:
    """Where a check was read: `grader output`, `pytest at step 3`."""
    place = format.one_line(check.place)
    return place if check.read_at is None else f"{place} at step {check.read_at}"


def _cause(check: FailedCheck) -> tuple[int | None, str, str]:
    role, text = (check.cause.role, check.cause.text) if check.cause else ("", "")
    return _step(check), f"{role} {text}".strip(), _place(check)


def _step(check: FailedCheck) -> int | None:
    """The step that wrote what it names, else the one that showed it."""
    return check.read_at if check.cause is None else check.cause.step


def _join(checks: Sequence[FailedCheck]) -> KnownLine:
    first, others = checks[0], [each.short_name for each in checks[1:]]
    more = f", and {len(others) - NAMED} more" if len(others) > NAMED else ""
    names = ", ".join(others[:NAMED]) + more
    return KnownLine(
        kind="check",
        step=_step(first),
        fact=format.one_line(f"{first.phrase}; also failed: {names}"),
        details=(
            *_check_details(first),
            *(("also failed", format.one_line(each.phrase)) for each in checks[1:]),
        ),
    )


def _check_details(check: FailedCheck) -> Iterator[tuple[str, str]]:
    if check.cause is not None:
        yield check.cause.role, f"{check.cause.text} by {check.cause.place or 'its answer'}"
    if check.expected is not None and check.message:
        yield "message", check.message
    if check.location:
        yield "failed at", check.location
    yield "read in", _place(check)
