"""May what a judge says of a probe be relied on? Only where it agrees with people on the same runs.

A run that a person tagged `other` with the probe's sub-label says yes; any other run that a person
tagged or marked clean says no. The gate is that of the items of judges (`calibration.approval`),
and it is asked anew of the labels of today each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.statistics import Rate, rate
from replay.store.handle import Store
from taxonomy.calibration.approval import Answers, ItemAgreement, Trust, item_agreement, item_gate
from taxonomy.judge.audits import LABELS, JudgedAudit, JudgedProbe
from taxonomy.judgements.tags import human_words


class JudgedRate(Struct, frozen=True, kw_only=True):
    """What a judge saw of a probe: the share of the runs it read with a failure, and those where it
    was `stopped` alone. `agreement` is with people, and `trust` whether it is approved."""

    probe: JudgedProbe
    seen: Rate
    stopped: int
    agreement: ItemAgreement
    trust: Trust


def judged_rates(store: Store, by: str, judged: Sequence[JudgedAudit]) -> tuple[JudgedRate, ...]:
    """A rate a probe, over the runs that a judge of that name read."""
    read = [each for each in judged if each.state == "read"]
    said = _labels(store)
    return tuple(_rate(by, probe, read, said) for probe in LABELS)


def _labels(store: Store) -> dict[str, set[str | None]]:
    """The sub-labels that people gave each recording they tagged or marked clean, None for another
    class."""
    found: dict[str, set[str | None]] = {}
    for word in human_words(store):
        given = found.setdefault(word.trace, set())
        if word.failure is not None:
            given.add(word.sub)
    return found


def _rate(
    by: str,
    probe: JudgedProbe,
    read: Sequence[JudgedAudit],
    said: dict[str, set[str | None]],
) -> JudgedRate:
    answers = [
        Answers(said=LABELS[probe][0] in said[each.trace], held=each.sees(probe))
        for each in read
        if each.trace in said
    ]
    agreement = item_agreement("judge", by, probe, answers)
    gate = item_gate(agreement)
    stopped = [any(of == probe for of, _ in each.findings) for each in read]
    seen = [each.sees(probe) for each in read]
    return JudgedRate(
        probe=probe,
        seen=rate(sum(seen), len(seen)),
        stopped=sum(stopped) - sum(seen),
        agreement=agreement,
        trust=Trust(
            by=by,
            state="not approved" if gate.missing else "approved",
            missing=gate.missing,
        ),
    )
