"""A probe under way or at its end: what it came to, and the cause that speaks for."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from arc_tui.experiments.locked_view import ReplayRow
from arc_tui.ui import format
from arc_tui.views.probe_offers import LOCAL
from replay.locked.tally import BreakTest
from replay.statistics import Rate, rate
from taxonomy.probes.result import Decided, LogLine, Result, meaning
from taxonomy.probes.symptoms import ProbeEntry


class ProbeView(Struct, frozen=True, eq=False, kw_only=True):
    """A probe under way or at its end; everything `arc probe --probe` prints.

    `text` was put in, from `by`; `diff` shows the edit. `test` counts the answers at the step that
    still show the failure, by whose word, `left` is their share with the probe. `classification`
    and `intervention` are None until the probe is done, and where it is undecided or its effect
    partial. `rows` are the steps asked: those after the first departure, and the tail behind the
    break, rest on a history the edited agent would not have had. `line` is the line of the log,
    there when `done`; `ended` is why it was cut short.
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
