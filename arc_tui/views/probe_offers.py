"""Probes as they are offered: which fit a run, what they would cost, what the last came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui.format import cost
from replay.locked.estimate import Estimate
from replay.models.choose import DEMO, label
from taxonomy.probes.presets import Preset, Unfit
from taxonomy.probes.result import LogLine
from taxonomy.probes.symptoms import BY_NAME, BY_SYMPTOM, Noted, ProbeEntry


class WhyProbes(Struct, frozen=True, eq=False, kw_only=True):
    """The probes that fit at a step, and the `last` line of the log for it.

    `listed` is None at a step where the run did not break.
    """

    step: int
    listed: ProbesView | None = None
    last: LogLine | None = None


class ProbeOffer(Struct, frozen=True, kw_only=True):
    """A probe that may be run: `key` is its letter, `change` the one thing it changes.

    `fits` where its symptom was seen. `text` is what would be put in and `by` where that is from;
    `estimate` what it would ask and cost, `command` what runs it. `why_not` says why it cannot be
    made of this run; the other three are then empty.
    """

    name: str
    key: str
    symptom: str
    candidates: tuple[str, str]
    change: str
    fits: bool
    text: str = ""
    by: str = ""
    estimate: Estimate | None = None
    command: tuple[str, ...] = ()
    why_not: str | None = None


class ProbesView(Struct, frozen=True, eq=False, kw_only=True):
    """The symptom of a run at its break, and the probes for it: those that fit come first.

    `symptoms` are those that were seen with what they were read off; `unfit` says why there is
    none. `estimate`s are for `k` samples an arm of `model`, which is None where it is not known
    which one to ask. `broke` is where the run is taken to have broken, as far as is known: a person
    may ask of another step.
    """

    trace: str
    task: str | None
    step: int | None
    symptoms: tuple[Noted, ...]
    unfit: str | None
    offers: tuple[ProbeOffer, ...]
    model: str | None
    k: int
    notice: str | None = None
    broke: int | None = None

    @property
    def ready(self) -> tuple[ProbeOffer, ...]:
        """Those that fit and can be run."""
        return tuple(each for each in self.offers if each.fits and each.why_not is None)


NO_PROBES = ProbesView(
    trace="",
    task=None,
    step=None,
    symptoms=(),
    unfit=None,
    offers=(),
    model=None,
    k=0,
)


def offer(
    made: Preset | Unfit,
    symptoms: Sequence[Noted],
    estimate: Estimate | None,
    command: Sequence[str],
) -> ProbeOffer:
    """A probe as it is offered."""
    probe = made.probe
    bare = ProbeOffer(
        name=probe.name,
        key=probe.key,
        symptom=probe.symptom.value,
        candidates=probe.candidates,
        change=probe.change,
        fits=probe.symptom in {each.symptom for each in symptoms},
        why_not=made.why if isinstance(made, Unfit) else None,
    )
    if isinstance(made, Unfit):
        return bare
    return ProbeOffer(
        name=bare.name,
        key=bare.key,
        symptom=bare.symptom,
        candidates=bare.candidates,
        change=bare.change,
        fits=bare.fits,
        text=made.text,
        by=made.by,
        estimate=estimate,
        command=tuple(command),
    )


def in_order(symptoms: Sequence[Noted]) -> list[ProbeEntry]:
    """The probes, those of the symptoms first."""
    first = [BY_SYMPTOM[each.symptom] for each in symptoms]
    return [*first, *(each for each in BY_NAME.values() if each not in first)]


LOCAL = label(DEMO)
"""The name beside figures that cost nothing."""


def between(offer: ProbeOffer) -> str:
    """The causes that a probe tells apart."""
    return " or ".join(offer.candidates)


def price(offer: ProbeOffer, model: str | None) -> str:
    """The calls a probe would make and what they come to; "" where it cannot be made."""
    if offer.why_not is not None:
        return ""
    if model is None or offer.estimate is None:
        return "cost unknown: no model"
    return calls(offer.estimate, local=model == LOCAL)


def calls(estimate: Estimate, *, local: bool) -> str:
    """`22 calls, about $0.0120`."""
    if not estimate.calls:
        return "all cached"
    said = format.count(estimate.calls, "call")
    return f"{said}, free" if local else f"{said}, {cost(estimate)}"


def readings(offer: ProbeOffer) -> Iterator[str]:
    """The cause that each result indicates, and the intervention."""
    entry = BY_NAME[offer.name]
    for shown, means in (("failure persists", entry.persists), ("failure gone", entry.repairs)):
        yield f"{shown}: {means.classification}; then {means.intervention}"
    yield "failure less frequent: partial effect; neither cause alone"


def last_words(line: LogLine) -> str:
    """What the last probe came to: `probed 2026-11-22: goal misread → clarification prompt`."""
    if line.classification is None:
        first, second = BY_NAME[line.probe].candidates
        if line.result == "partial":
            return f"probed {line.date}: partial effect; neither {first} nor {second} alone"
        return f"probed {line.date}: inconclusive: {first} or {second}"
    return f"probed {line.date}: {line.classification} → {line.intervention}"


def last_basis(line: LogLine) -> str:
    """What it rests on: the probe, both arms' counts, who answered."""
    (hits, of), (edited, edited_of) = line.control, line.edited
    assumed = ", symptom assumed" if line.assumed else ""
    return (
        f"{line.probe}{assumed}: failure in {edited}/{edited_of} with the probe,"
        f" {hits}/{of} without · model {format.one_line(label(line.model))}"
    )
