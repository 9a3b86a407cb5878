"""What is said of probes in a few words, by the screen and beside the reasons of a step. Pure.

A cause is named only where a probe was run to its end and its samples told.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.probing.view import ProbeOffer, ProbeView
from arc_tui.views.wish import cost
from replay.locked.estimate import Estimate
from replay.models.choose import DEMO, label
from taxonomy.probes.log import LogLine
from taxonomy.probes.table import BY_NAME

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


def last_words(line: LogLine) -> str:
    """What the last probe came to: `probed 2026-11-22: goal misread → clarification prompt`."""
    if line.classification is None:
        first, second = BY_NAME[line.probe].candidates
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
    return f"shows the failure in {hits} of {n}" if n else "no answer that could be judged"


def spent(view: ProbeView) -> str:
    """Who answered, how many samples, and what that cost."""
    paid = format.usd(view.spent_usd, complete=view.spent_complete)
    usd = "free" if view.model == LOCAL else paid
    calls = f"{format.count(view.asked, 'call')}, {format.number(view.kept)} kept"
    samples = f"{format.count(view.k, 'sample')} an arm"
    return f"{format.one_line(view.model)} · {samples} · {calls} · {usd}"
