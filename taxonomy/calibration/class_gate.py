"""May the classes that a judge suggests be trusted more than those of rules?

Held against people's tags and clean marks, a run one pair: the class the judge gives, "none" where
it sees no failure or quotes nothing of the run, beside the class people give. Approval ends after
30 days, as for every judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from replay.statistics import Rate, rate
from replay.store import answers
from replay.store.handle import Store
from taxonomy.calibration.approval import EXPIRES_NS, LEAST_KAPPA, OVER_KAPPA, Trust
from taxonomy.calibration.labelled import Labelled
from taxonomy.classes import FailureClass
from taxonomy.judgements.suggestions import NONE, Classification, approve_suggestions
from taxonomy.metrics.agreement import Detection, Estimate, detection, kappa

LEAST_RUNS = 10
"""Labelled runs that the judge looked at."""

LEAST_CLASSES = 2
"""Classes, or a class and clean runs, among their labels."""


class ClassGate(Struct, frozen=True, kw_only=True):
    """A judge's classes beside people's, and the verdict: passed, or every reason why not.

    `kappa` and `agreed` are over runs; a run that people give several classes agrees where the
    judge names one of them. `step` is over the runs with a class of both whose decisive step
    people name. `enough`: were there labels enough to say either? `applied`: do the judge's
    suggestions count as approved?
    """

    by: str
    kappa: Estimate
    agreed: Rate
    step: Rate
    rows: tuple[Detection, ...]
    missing: tuple[str, ...]
    enough: bool
    checked_ns: int = 0
    applied: bool = False

    @property
    def passed(self) -> bool:
        return not self.missing

    def stands(self, now_ns: int) -> bool:
        """May its suggestions be trusted at that time?"""
        return self.passed and now_ns < self.checked_ns + EXPIRES_NS


def class_gates(
    runs: Sequence[Labelled], said: Iterable[Classification], now_ns: int = 0
) -> tuple[ClassGate, ...]:
    """The verdict on every judge that classified a labelled run, by name."""
    known = {run.row.trace: run for run in runs if run.classes is not None}
    judges: dict[str, list[tuple[Labelled, Classification]]] = defaultdict(list)
    for each in said:
        if each.trace in known:
            judges[each.by].append((known[each.trace], each))
    return tuple(_gate(by, pairs, now_ns) for by, pairs in sorted(judges.items()))


def _gate(by: str, pairs: Sequence[tuple[Labelled, Classification]], now_ns: int) -> ClassGate:
    named = [_class_pair(run, said) for run, said in pairs]
    agreement = kappa(named)
    placed = [
        said.step in run.classes_at
        for run, said in pairs
        if said.failure is not None and run.classes_at
    ]
    missing = []
    if len(named) < LEAST_RUNS:
        missing.append(f"{len(named)} of at least {LEAST_RUNS} labelled runs")
    classes = {label for label, _ in named}
    if len(classes) < LEAST_CLASSES:
        missing.append(f"labels of {len(classes)} of at least {LEAST_CLASSES} classes")
    enough = not missing
    if enough and agreement.value is None:
        missing.append(f"κ is not defined on {agreement.n} runs")
    elif agreement.value is not None and agreement.value < LEAST_KAPPA:
        missing.append(f"κ {agreement.value:.2f} is under {LEAST_KAPPA:.2f}")
    elif agreement.value is not None and agreement.low <= OVER_KAPPA:
        missing.append(f"κ may be as low as {agreement.low:.2f}; over {OVER_KAPPA:.2f} needed")
    return ClassGate(
        by=by,
        kappa=agreement,
        agreed=rate(sum(label == found for label, found in named), len(named)),
        step=rate(sum(placed), len(placed)),
        rows=tuple(
            detection(name, ((label == name, found == name) for label, found in named))
            for name in (*(each.value for each in FailureClass), NONE)
        ),
        missing=tuple(missing),
        enough=enough,
        checked_ns=now_ns,
    )


def _class_pair(run: Labelled, said: Classification) -> tuple[str, str]:
    """(what people call the run, what the judge calls it); of several classes the judge's own."""
    classes = run.classes or frozenset()
    if said.failure in classes:
        return said.failure.value, said.failure.value
    return min((each.value for each in classes), default=NONE), said.failure or NONE


# --- what is kept

_NOTE = "calibration of classes "


def keep_gate(store: Store, verdict: ClassGate) -> None:
    """Keep a verdict in place of the last one on the same judge, and let it take effect.

    One on too few labels takes no trust away that stands.
    """
    before = kept_gate(store, verdict.by)
    if verdict.enough or before is None or not before.stands(verdict.checked_ns):
        applied = before is not None and before.applied
        _apply(store, structs.replace(verdict, applied=applied), verdict.checked_ns)


def kept_gate(store: Store, by: str) -> ClassGate | None:
    """The last verdict on a judge's classes, expired or not; None without one."""
    return next((each for each in _read_gates(store, by) if each.by == by), None)


def settle_gates(store: Store, now_ns: int) -> None:
    """Let verdicts that have expired take their effect back."""
    for each in _read_gates(store):
        if each.applied and not each.stands(now_ns):
            _apply(store, each, now_ns)


def _apply(store: Store, verdict: ClassGate, now_ns: int) -> None:
    stands = verdict.stands(now_ns)
    with store.writing():
        if stands != verdict.applied:
            approve_suggestions(store, verdict.by, approved=stands)
        answers.keep(store, f"{_NOTE}{verdict.by}", structs.replace(verdict, applied=stands))


def _read_gates(store: Store, by: str = "") -> list[ClassGate]:
    return answers.found(store, f"{_NOTE}{by}", ClassGate)


def class_trust(store: Store, by: str, now_ns: int) -> Trust:
    """How the classes that a judge suggests stand."""
    verdict = kept_gate(store, by)
    if verdict is None:
        return Trust(by=by, state="never calibrated")
    until = verdict.checked_ns + EXPIRES_NS
    if now_ns >= until:
        return Trust(by=by, state="expired", until_ns=until)
    return Trust(
        by=by,
        state="approved" if verdict.passed else "not approved",
        until_ns=until,
        missing=verdict.missing,
    )
