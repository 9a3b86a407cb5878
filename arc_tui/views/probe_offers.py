"""Probes as a person reads them: which fit a run, what they would cost, and what one came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from arc_tui.experiments.locked_view import ReplayRow
from arc_tui.experiments.request import cost
from arc_tui.ui import format
from replay.locked.estimate import Estimate
from replay.locked.tally import BreakTest
from replay.models.choose import DEMO, label
from replay.statistics import Rate, rate
from taxonomy.probes.presets import Preset, Unfit
from taxonomy.probes.result import Decided, LogLine, Result, meaning
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


class ProbeView(Struct, frozen=True, eq=False, kw_only=True):
    """A probe under way or at its end; everything `arc probe --probe` prints.

    `text` was put in, from `by`; `diff` shows the edit. `test` counts the answers at the step that
    still show the failure, by whose word, `left` is their share with the probe. `classification`
    and `intervention` are None until the probe is done, and where it is undecided or its effect
    partial. `rows` are the steps asked: those after the first
    departure, and the tail behind the break, rest on a history the edited agent would not have
    had. `line` is the line of the log, there when `done`; `ended` is why it was cut short.
    """

    trace: str
    step: int
    probe: str
    symptom: str
    assumed: bool
    candidates: tuple[str, str]
    change: str
    text: str
    by: str
    diff: tuple[str, ...]
    model: str
    sentence: str
    result: Result
    why: str
    test: BreakTest | None
    p: float | None
    likely: float | None
    left: Rate | None
    classification: str | None
    intervention: str | None
    rows: tuple[ReplayRow, ...]
    notices: tuple[str, ...]
    line: LogLine | None = None
    k: int = 1
    asked: int = 0
    kept: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    done: bool = False
    ended: str | None = None
    digest: str | None = None


def sentence(probe: ProbeEntry, found: Decided, *, done: bool, ended: str | None = None) -> str:
    """What the probe came to, and the cause it speaks for; no cause before it is done."""
    first, second = probe.candidates
    if ended is not None:
        return f"Cut short, so still {first} or {second}: {ended}."
    if not done:
        return f"Asking under the probe ({probe.change}): {first} or {second}."
    if found.result == "partial":
        return (
            f"A partial effect: under the probe ({probe.change}) the failure is rarer and still"
            f" there, which speaks for neither {first} nor {second} alone: {found.why}."
        )
    means = meaning(probe, found.result)
    if means is None:
        return f"Undecided between {first} and {second}: {found.why}."
    return (
        f"The failure {_VERBS[found.result]} under the probe ({probe.change}): that speaks for"
        f" {means.classification}, not {_other(probe, means.classification)}."
        f" Try: {means.intervention}."
    )


def _other(probe: ProbeEntry, classification: str) -> str:
    """The candidate that it does not speak for."""
    return next(each for each in probe.candidates if each != classification)


_VERBS: dict[Result, str] = {
    "persists": "persists",
    "partial": "is rarer",
    "repairs": "is repaired",
    "undecided": "is undecided",
}


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
        return f"{format.UNKNOWN} calls: which model?"
    return calls(offer.estimate, local=model == LOCAL)


def calls(estimate: Estimate, *, local: bool) -> str:
    """`22 calls, about $0.0120`."""
    if not estimate.calls:
        return "all answered already"
    said = format.count(estimate.calls, "call")
    return f"{said}, free" if local else f"{said}, {cost(estimate)}"


def readings(offer: ProbeOffer) -> Iterator[str]:
    """What either result would speak for, and what to do then."""
    entry = BY_NAME[offer.name]
    for shown, means in (("still there", entry.persists), ("gone", entry.repairs)):
        yield f"{shown}: {means.classification}; then {means.intervention}"
    yield "rarer, and still there: a partial effect; neither alone"


def last_words(line: LogLine) -> str:
    """What the last probe came to: `probed 2026-11-22: goal misread → clarification prompt`."""
    if line.classification is None:
        first, second = BY_NAME[line.probe].candidates
        if line.result == "partial":
            return f"probed {line.date}: a partial effect, neither {first} nor {second} alone"
        return f"probed {line.date}: undecided between {first} and {second}"
    return f"probed {line.date}: {line.classification} → {line.intervention}"


def last_basis(line: LogLine) -> str:
    """What it rests on: the probe, both arms' counts, who answered."""
    (hits, of), (edited, edited_of) = line.control, line.edited
    assumed = ", its symptom assumed" if line.assumed else ""
    return (
        f"{line.probe}{assumed}: the failure in {edited}/{edited_of} with the probe,"
        f" {hits}/{of} without, by {format.one_line(label(line.model))}"
    )


def arms(view: ProbeView) -> Iterator[tuple[str, str]]:
    """(arm, how often the failure shows) of what was judged so far."""
    test = view.test
    if test is None:
        return
    yield "without", _share(test.control, test.control_n)
    yield "with", _share(test.edited, test.edited_n)


def _share(hits: int, n: int) -> str:
    if not n:
        return "no answer that could be judged"
    return f"shows the failure in {hits} of {n} ({format.interval(rate(hits, n))})"


def spent(view: ProbeView) -> str:
    """Who answered, how many samples, and what that cost."""
    paid = format.usd(view.spent_usd, complete=view.spent_complete)
    usd = "free" if view.model == LOCAL else paid
    calls = f"{format.count(view.asked, 'call')}, {format.number(view.kept)} kept"
    samples = f"{format.count(view.k, 'sample')} an arm"
    return f"{format.one_line(view.model)} · {samples} · {calls} · {usd}"
