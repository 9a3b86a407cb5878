"""A tested edit in words, for the screen and the command alike. Pure.

The outcome of a run is not evaluated: only single steps of it were replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from arc_tui.experiments.progress import NO_LIMITS, spending_line
from arc_tui.features.edit_test.view import EditTestView, Left, TestedRun, TestedStep
from arc_tui.ui import format
from replay.budget import Limits
from replay.locked.estimate import Estimate
from replay.locked.tally import RECORDED
from replay.models.choose import label
from replay.statistics import ALPHA, Clustered
from taxonomy.edit_test import FEWEST, Effect, Ruling, effect_of

RULINGS: dict[Ruling, str] = {
    "fixed": "✓ fixed",
    "changed": "~ changed",
    "not fixed": "✗ not fixed",
    "inconclusive": "? inconclusive",
    "unknown": "? unknown",
}
EFFECTS: dict[Effect, str] = {
    "broke": "✗ broke",
    "changed": "~ changed",
    "held": "· same",
    "inconclusive": "? inconclusive",
    "unknown": "? unknown",
}
WAITING = "  waiting"

NOT_OUTCOMES = "Outcomes not evaluated."


def headline(view: EditTestView) -> str:
    """The two counts: `fixed 9/12 (.47–.91), expected by chance .1 · broke 1/40 …`."""
    fixed = counted(view.fixed, view.fixed_by_chance)
    return f"fixed {fixed} · broke {counted(view.broke, view.broke_by_chance)}"


def counted(found: Clustered, by_chance: float | None) -> str:
    """A share with its interval, and what chance alone would give of it."""
    if not found.rate.n or by_chance is None:
        return share(found)
    return f"{share(found)}, expected by chance {few(by_chance)}"


def few(expected: float) -> str:
    """An expected count, to the first digit after the point."""
    if 0 < expected < 0.05:
        return "< .1"
    return f"{expected:.1f}".removeprefix("0") if expected else "0"


def share(found: Clustered) -> str:
    """A share with its interval."""
    if not found.rate.n:
        return format.UNKNOWN
    return f"{found.hits}/{found.rate.n} ({format.interval(found.rate)})"


def sentence(view: EditTestView) -> str:
    """What the two counts rest on, and no more than was asked; read after `headline`."""
    return " ".join(_sentence(view))


def _sentence(view: EditTestView) -> Iterator[str]:
    yield f"{_of_breaks(view)}."
    if view.broke.rate.n:
        yield f"{_of_steps(view)}."
    if view.samples == 1:
        yield "1 sample: not conclusive."
    yield NOT_OUTCOMES


def _of_breaks(view: EditTestView) -> str:
    if not view.fixed.rate.n:
        return "No break could be judged"
    seen = f"failure in {view.edited.words} edited, {view.control.words} control"
    chance = f"significant, {p_words(view.p)}" if view.rarer else "not significant"
    if view.fixed.hits:
        return f"At the breaks: {seen} ({chance})"
    if all(row.ruling in ("not fixed", "unknown", None) for row in view.runs):
        return f"Not fixed at any judged break: {seen}"
    return f"No single break tests as fixed; in all: {seen} ({chance})"


def _of_steps(view: EditTestView) -> str:
    if view.broke.hits:
        significant = view.step_p <= ALPHA
        chance = f"significant, {p_words(view.step_p)}" if significant else "in all not significant"
        return f"At healthy steps: it acts differently ({chance})"
    return "No single healthy step tests as broken"


def p_words(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {f'{p:.3f}'.removeprefix('0')}"


def basis(view: EditTestView) -> tuple[str, ...]:
    """By which rules that is said, and what the intervals rest on."""
    return tuple(_basis(view))


def _basis(view: EditTestView) -> Iterator[str]:
    samples = format.count(view.samples, "sample")
    yield (
        f"fixed: the failure shows in more than half of the judged control samples and in fewer"
        f" than half of the edited ones ({samples} an arm), and Fisher's exact test of that run is"
        f" significant at {format.fraction(ALPHA)}, else inconclusive; unknown, and in no rate,"
        " where control does not show the failure or most samples cannot be judged"
    )
    yield (
        "broke: control matches the recording, the edited arm mostly diverges, and the step's own"
        " test is significant; a different action need not be worse; rewording does not count"
    )
    yield (
        "the tests are not corrected for their number: “expected by chance” is how many would be"
        " called so if the edit had no effect, each step's samples assigned to the arms at random"
    )
    if view.rules:
        yield f"your comparison rules: {'; '.join(map(format.one_line, view.rules))}"
    if view.fixed.rate.n:
        yield f"runs: {_worth(view.fixed, 'run')}"
    if view.broke.rate.n:
        yield f"healthy steps: {_worth(view.broke, 'step')}"
    yield (
        "intervals: Wilson, 95 %, corrected for tasks (Kish's design effect, intraclass correlation"
        " by Fleiss and Cuzick)"
    )


def _worth(found: Clustered, noun: str) -> str:
    """The effective sample size, and the interval as if all were independent."""
    of = f"{format.count(found.rate.n, noun)} of {format.count(found.groups, 'task')}"
    if found.effective_n >= found.rate.n:
        return f"{of}, treated as independent"
    return (
        f"{of}: effective sample size {found.effective_n:.1f}"
        f" (if independent: {format.interval(found.alone)})"
    )


def notices(view: EditTestView) -> tuple[str, ...]:
    """What a reader must know besides the rates."""
    return tuple(_notices(view))


def _notices(view: EditTestView) -> Iterator[str]:
    if view.ended is not None:
        done = f"{view.done} of {format.count(view.total, 'step')}"
        yield f"stopped after {done}: {format.one_line(view.ended)}"
    for left in view.left_out:
        yield f"{_runs(left)} left out: {format.one_line(left.why)}"
    for left in view.not_applicable:
        yield f"not applicable to {_runs(left)}: {format.one_line(left.why)}"
    alike = sum(row.like is not None for row in view.runs)
    if alike:
        runs = f"{format.count(alike, 'run')} {'has' if alike == 1 else 'have'}"
        yield f"{runs} the same request as another: called once"
    if view.total and not view.steps and view.edit is not None:
        yield "the edit reaches no healthy step: what it breaks is not evaluated"
    questions = (row.lacks for row in view.runs if row.like is None)
    lacking = (*questions, *(row.lacks for row in view.steps))
    lacks = [why for why in lacking if why is not None]
    if lacks:
        steps = format.count(len(lacks), "step")
        yield f"{steps} with missing samples: {format.one_line(lacks[0])}"
    unjudged = sum(row.unjudged for row in view.runs if row.like is None)
    if unjudged:
        yield (
            f"{format.count(unjudged, 'sample')} at the breaks could not be judged: counted in"
            " neither arm"
        )
    if view.samples < FEWEST:
        yield (
            f"{format.count(view.samples, 'sample')} an arm cannot be significant for a single run"
            f" or step: that takes {FEWEST}"
        )
    unclear = [
        *(row for row in view.runs if row.ruling == "inconclusive"),
        *(row for row in view.steps if row.effect == "inconclusive"),
    ]
    if unclear and view.samples >= FEWEST:
        yield (
            f"{format.count(len(unclear), 'row')} inconclusive: most samples differ, and the test"
            " is not significant. Try more samples."
        )
    worse = sum(_is_worse(row) for row in view.runs)
    if worse:
        runs = format.count(worse, "run")
        yield (
            f"in {runs} control mostly shows no failure and the edited arm mostly does: significant"
        )
    flawed = sum(row.flawed > 0 for row in view.steps)
    if flawed:
        steps = format.count(flawed, "healthy step")
        yield f"at {steps} the edited arm calls a tool that is not offered, or omits an argument"


def _is_worse(row: TestedRun) -> bool:
    if row.control is None or row.edited is None or not row.control.n:
        return False
    arms = row.control.hits, row.control.n, row.edited.hits, row.edited.n
    return effect_of(arms) == "broke"


def _runs(left: Left) -> str:
    return format.count(len(left.traces), "run")


def arms(row: TestedRun | TestedStep) -> tuple[str, str]:
    """Control and edited: so many samples of those that were judged."""
    control, edited = row.control, row.edited
    return (
        control.words if control is not None else format.UNKNOWN,
        edited.words if edited is not None else format.UNKNOWN,
    )


def mark(row: TestedRun | TestedStep) -> str:
    """What became of a run or a step."""
    if isinstance(row, TestedRun):
        return RULINGS[row.ruling] if row.ruling is not None else WAITING
    return EFFECTS[row.effect] if row.effect is not None else WAITING


def effect_words(row: TestedRun | TestedStep) -> str:
    """What the edited arm does there, or why nothing can be said."""
    return format.one_line(row.why or row.did)


def whom(view: EditTestView) -> str:
    """Which models were called, and where."""
    names = ", ".join(format.one_line(label(name)) for name in view.spent.models)
    servers = ", ".join(format.one_line(each) for each in view.spent.servers if each)
    return f"{names} at {servers}" if servers else names


def spent(view: EditTestView, limits: Limits = NO_LIMITS) -> str:
    """The calls and what they cost."""
    return spending_line(view.spent.spending, limits)


def extent(view: EditTestView, estimate: Estimate) -> str:
    """What testing would call, before it does: steps, arms, samples."""
    runs = format.count(len(view.runs), "run")
    steps = format.count(len(view.steps), "healthy step")
    samples = format.count(view.samples, "sample")
    stored = f", {format.number(estimate.stored)} cached" if estimate.stored else ""
    calls = format.count(estimate.calls, "call")
    return f"{runs} at the break and {steps} × 2 arms × {samples}: {calls}{stored}"


def counted_at_breaks(view: EditTestView) -> str:
    """What is counted at the breaks, and by which detector."""
    names = dict.fromkeys(row.detector for row in view.runs if row.detector is not None)
    said = ("repeating the recorded action" if name == RECORDED else name for name in names)
    by = "; ".join(map(format.one_line, said))
    return f"samples that show the failure{f', by {by}' if by else ''}"


def moment(ns: int) -> str:
    """When a test was finished."""
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"


COUNTED_AT_STEPS = "samples that diverge from the recording"
