"""What is said of a tried edit in words, on the screen and by the command alike. Pure.

Nothing is said of how a run would have ended: only single steps of it were asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from arc_tui.features.edit_test.view import EditTestView, Left, TestedRun, TestedStep
from arc_tui.ui import format
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
    "unknown": "? cannot tell",
}
EFFECTS: dict[Effect, str] = {
    "broke": "✗ broke",
    "changed": "~ changed",
    "held": "· held",
    "inconclusive": "? inconclusive",
    "unknown": "? cannot tell",
}
WAITING = "  waiting"

NOT_OUTCOMES = "How the runs would end is not known."


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
    """What the rates mean, and no more than was asked."""
    return " ".join(_sentence(view))


def _sentence(view: EditTestView) -> Iterator[str]:
    yield f"{_of_breaks(view)}."
    if view.broke.rate.n:
        yield f"{_of_steps(view)}."
    if view.samples == 1:
        yield "One sample of each: a look."
    yield NOT_OUTCOMES


def _of_breaks(view: EditTestView) -> str:
    told = format.count(view.fixed.rate.n, "break")
    if not view.fixed.rate.n:
        return "Of no run can be told whether the edit fixes it"
    seen = f"{view.edited.words} answers against {view.control.words} of control"
    chance = f"beyond chance ({p_words(view.p)})" if view.rarer else "which may be chance"
    if view.fixed.hits:
        return f"At {view.fixed.hits} of {told} the edit fixes the failure: {seen}, {chance}"
    if all(row.ruling in ("not fixed", "unknown", None) for row in view.runs):
        return f"The failure is still there at every break that can be told ({seen})"
    return f"At none of {told} does a test of its own show it fixed; in all: {seen}, {chance}"


def _of_steps(view: EditTestView) -> str:
    broke, n = view.broke.hits, format.count(view.broke.rate.n, "healthy step")
    if broke:
        chance = f"beyond chance ({p_words(view.step_p)})"
        return (
            f"At {broke} of {n} it acts otherwise,"
            f" {chance if view.step_p <= ALPHA else 'which in all may be chance'}"
        )
    return f"At none of {n} does a test of its own show that it acts otherwise"


def p_words(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {f'{p:.3f}'.removeprefix('0')}"


def basis(view: EditTestView) -> tuple[str, ...]:
    """By which rules that is said, and what the intervals rest on."""
    return tuple(_basis(view))


def _basis(view: EditTestView) -> Iterator[str]:
    samples = format.count(view.samples, "sample")
    yield (
        f"fixed: control shows the failure in more than half of its judged answers, the edit in"
        f" fewer than half ({samples} an arm), and Fisher's exact test of that run holds at"
        f" {format.fraction(ALPHA)}; where it does not, inconclusive; where control does not show"
        " it, or most answers cannot be judged, it cannot be told and counts in no rate"
    )
    yield (
        "broke: control keeps to the recording, the edit mostly departs, and the step's own test"
        " holds; another action, which need not be a worse one; other words alone are none"
    )
    yield (
        "the tests are not corrected for their number: expected by chance is how many would be"
        " called so if the edit did nothing, each step's answers dealt to the arms at random"
    )
    if view.rules:
        yield f"compared by your rules: {'; '.join(map(format.one_line, view.rules))}"
    if view.fixed.rate.n:
        yield f"runs: {_worth(view.fixed, 'run')}"
    if view.broke.rate.n:
        yield f"healthy steps: {_worth(view.broke, 'step')}"
    yield (
        "intervals: Wilson, 95 %, corrected for tasks (Kish's design effect, Fleiss and Cuzick's"
        " estimate of how alike runs of one task are)"
    )


def _worth(found: Clustered, noun: str) -> str:
    """How much the things are worth, and the interval as if each stood for itself."""
    of = f"{format.count(found.rate.n, noun)} of {format.count(found.groups, 'task')}"
    if found.effective_n >= found.rate.n:
        return f"{of}, taken for independent"
    return (
        f"{of} are worth {found.effective_n:.1f} independent ones"
        f" (taken for independent: {format.interval(found.alone)})"
    )


def notices(view: EditTestView) -> tuple[str, ...]:
    """What a reader must know beside the rates."""
    return tuple(_notices(view))


def _notices(view: EditTestView) -> Iterator[str]:
    if view.ended is not None:
        done = f"{view.done} of {format.count(view.total, 'step')}"
        yield f"cut short at {done}: {format.one_line(view.ended)}"
    for left in view.left_out:
        yield f"{_runs(left)} left out: {format.one_line(left.why)}"
    for left in view.not_applicable:
        yield f"not applicable to {_runs(left)}: {format.one_line(left.why)}"
    alike = sum(row.like is not None for row in view.runs)
    if alike:
        runs = f"{format.count(alike, 'run')} {'asks' if alike == 1 else 'ask'}"
        yield f"{runs} the very same as another: one question to a model"
    if view.total and not view.steps:
        yield "no healthy step is reached by the edit: nothing says what it breaks"
    questions = (row.lacks for row in view.runs if row.like is None)
    lacking = (*questions, *(row.lacks for row in view.steps))
    lacks = [why for why in lacking if why is not None]
    if lacks:
        steps = format.count(len(lacks), "step")
        yield f"{steps} with fewer answers than wanted: {format.one_line(lacks[0])}"
    unjudged = sum(row.unjudged for row in view.runs if row.like is None)
    if unjudged:
        yield (
            f"of {format.count(unjudged, 'answer')} at the breaks nobody can tell whether the"
            " failure shows: they count in neither arm"
        )
    if view.samples < FEWEST:
        yield (
            f"{format.count(view.samples, 'sample')} an arm can decide no run and no step by its"
            f" own test, whatever they show: that takes {FEWEST}"
        )
    unclear = [
        *(row for row in view.runs if row.ruling == "inconclusive"),
        *(row for row in view.steps if row.effect == "inconclusive"),
    ]
    if unclear and view.samples >= FEWEST:
        yield (
            f"{format.count(len(unclear), 'row')} inconclusive: most answers differ, and the own"
            " test does not hold; more samples may tell"
        )
    worse = sum(_is_worse(row) for row in view.runs)
    if worse:
        runs = format.count(worse, "run")
        yield (
            f"in {runs} control mostly shows no failure and the edit mostly does, by the run's own"
            " test"
        )
    flawed = sum(row.flawed > 0 for row in view.steps)
    if flawed:
        steps = format.count(flawed, "healthy step")
        yield f"at {steps} the edit calls what is not offered, or leaves an argument out"


def _is_worse(row: TestedRun) -> bool:
    if row.control is None or row.edited is None or not row.control.n:
        return False
    arms = row.control.hits, row.control.n, row.edited.hits, row.edited.n
    return effect_of(arms) == "broke"


def _runs(left: Left) -> str:
    return format.count(len(left.traces), "run")


def arms(row: TestedRun | TestedStep) -> tuple[str, str]:
    """Control and edited: so many answers of those that can be told."""
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
    """Who was asked, and where."""
    names = ", ".join(format.one_line(label(name)) for name in view.spent.models)
    servers = ", ".join(format.one_line(each) for each in view.spent.servers if each)
    return f"{names} at {servers}" if servers else names


def spent(view: EditTestView) -> str:
    """What was asked and what it cost."""
    usd = format.usd(view.spent.usd, complete=view.spent.complete)
    return f"{view.spent.asked} asked, {view.spent.kept} kept, {usd} spent"


def extent(view: EditTestView, estimate: Estimate) -> str:
    """What trying would ask, before anything is: steps, arms, samples."""
    runs = format.count(len(view.runs), "run")
    steps = format.count(len(view.steps), "healthy step")
    samples = format.count(view.samples, "sample")
    stored = f", {format.number(estimate.stored)} answered already" if estimate.stored else ""
    calls = format.count(estimate.calls, "call")
    return f"{runs} at the break and {steps} × 2 arms × {samples}: {calls}{stored}"


def counted_at_breaks(view: EditTestView) -> str:
    """What is counted at the breaks, and by whose word."""
    names = dict.fromkeys(row.oracle for row in view.runs if row.oracle is not None)
    said = ("repeating the recorded action" if name == RECORDED else name for name in names)
    by = "; ".join(map(format.one_line, said))
    return f"answers that show the failure{f', by {by}' if by else ''}"


def moment(ns: int) -> str:
    """When a try was finished."""
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"


COUNTED_AT_STEPS = "answers that depart from the recording"
