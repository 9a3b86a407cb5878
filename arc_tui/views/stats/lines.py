"""Every figure of some runs as a line, in the order of the table.

What cannot be computed stays in its place as unknown, with the reason in one line.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.stats import trust
from arc_tui.views.stats.line import Line, all_runs, joined, money, rate_line, share
from taxonomy import decay
from taxonomy.reliability import Repeated
from taxonomy.stats.against_gold import CallFigures
from taxonomy.stats.figures import Figures


def lines(found: Figures) -> Iterator[Line]:
    """The figures of some runs, all of them, in the order of the table."""
    yield from _outcome(found)
    yield from _calls(found)
    yield from _decay(found)
    yield from _steps(found)
    yield from trust.goals(found)
    yield from trust.trust(found)
    yield from trust.wordings(found)
    yield from trust.shapes(found)
    yield from trust.users(found)
    yield from _costs(found)


def _outcome(found: Figures) -> Iterator[Line]:
    unknown = found.outcome.unknown
    left_out = f"{format.count(unknown, 'run')} of unknown outcome left out" if unknown else None
    by = f"by {', '.join(map(format.one_line, found.verifiers))}" if found.verifiers else None
    yield rate_line("outcome", "passed", found.outcome.rate, "run", joined(by, left_out))
    if not found.repeated:
        yield Line(of="trials", name="pass^k", note="no run with an outcome names its task")
    taskless = f"{format.count(found.taskless, 'run')} without a task" if found.taskless else None
    for each in found.repeated:
        first = each.k == 1
        how = joined(_trials(found), taskless, _sampling(found)) if first else _left_out(each)
        yield rate_line("trials", f"pass^{each.k}", each.pass_hat, "task", how)
        if not first:
            times = f"flattery × {each.flattery:.2f}" if each.flattery is not None else None
            yield rate_line("trials", f"pass@{each.k}", each.pass_at, "task", joined(times))
    if len(found.repeated) == 1:
        yield Line(of="trials", name="pass^2", note="no task has two trials")


def _trials(found: Figures) -> str:
    """How many trials a task has."""
    fewest, most = found.repeated[0].trials or (0, 0)
    trials = format.count(most, "trial")
    return f"{trials} a task" if fewest == most else f"{fewest} to {trials} a task"


def _left_out(each: Repeated) -> str:
    """What a k needs, where not every task has it."""
    tasks = format.count(each.left_out, "task")
    return f"{tasks} with fewer than {each.k} trials left out" if each.left_out else ""


def _sampling(found: Figures) -> str:
    """Temperature and scaffold, as far as the runs say."""
    heat = ", ".join(f"{each:g}" for each in found.temperatures) or format.UNKNOWN
    agents = ", ".join(map(format.one_line, found.agents[:3])) or format.UNKNOWN
    more = f" and {len(found.agents) - 3} more" if len(found.agents) > 3 else ""
    return f"temperature {heat}, scaffold {agents}{more}"


_ORDERS = {"any": "in any order", "sequence": "in gold's order", "graph": "dependencies kept"}


def _calls(found: Figures) -> Iterator[Line]:
    if not found.calls:
        yield Line(of="calls", name="tool-call F1", note="no source gives gold actions")
    for each in found.calls:
        yield from _call_lines(each)
    if found.plans:
        verdicts = ", ".join(f"{words} {count}" for words, count in found.plans.items())
        yield Line(
            of="plan", name="plan and execution", value="", n=all_runs(found.plans), note=verdicts
        )
    if found.look_at:
        verdicts = ", ".join(f"{words} {count}" for words, count in found.look_at.items())
        yield Line(
            of="pyramid", name="look first at", value="", n=all_runs(found.look_at), note=verdicts
        )


def _call_lines(each: CallFigures) -> Iterator[Line]:
    order = _ORDERS[each.order]
    if each.what == "tool names":
        note = "gold's tools named in its order, arguments aside"
        yield rate_line("plan", "plan F1", each.f1, "task", note)
        yield rate_line("plan", "plan recall", each.recall, "gold call")
        return
    of = "calls" if each.what == "all calls" else "writes"
    yield rate_line(of, "tool-call F1", each.f1, "task", order)
    if each.order == "any":
        yield rate_line(of, "precision", each.precision, "call")
        yield rate_line(of, "recall", each.recall, "gold call")


_BASES: dict[decay.Basis, str] = {
    "label": "the label `length`",
    "gold length": "gold actions",
    "steps of passing runs": "median steps of the passing runs of the task",
    "own steps": "the run's own steps",
}


def _decay(found: Figures) -> Iterator[Line]:
    curve = found.decay
    basis = f"by {_BASES[found.decay_basis]}"
    for at, bucket in enumerate(curve.buckets):
        note = joined(basis, found.decay_warning, _unsized(curve)) if at == 0 else ""
        yield rate_line("length", f"pass@1 {bucket.label}", bucket.passed, "run", note)
    if len(curve.buckets) < 2:
        yield Line(of="length", name="GDS, VAF, MOP", note="needs tasks of two lengths")
        return
    n = format.count(len(curve.buckets), "bucket")
    yield Line(of="length", name="GDS", value=share(curve.graceful), n=n,
               note=decay.degradation_reading(curve.graceful) or "")  # fmt: skip
    varies = decay.variance_reading(curve.variance) or "no run passed"
    yield Line(of="length", name="VAF", value=share(curve.variance), n=n, note=varies)
    yield Line(of="length", name="MOP", value=curve.onset or "none", n=n, note=_onset(curve))


def _onset(curve: decay.Decay) -> str:
    """What the meltdown onset point says, and whether chance alone may have made it."""
    first = curve.buckets[0].passed
    at = next((each.passed for each in curve.buckets if each.label == curve.onset), None)
    if at is None:
        return "no bucket is 15 points under the shortest"
    doubt = "; its interval meets the shortest one's" if at.high >= first.low else ""
    return f"checkpoints or human review from here on{doubt}"


def _unsized(curve: decay.Decay) -> str | None:
    return f"{format.count(curve.unsized, 'run')} without a size" if curve.unsized else None


def _steps(found: Figures) -> Iterator[Line]:
    after, calm = found.persistence.after_failure, found.persistence.after_success
    note = "a step fails where a call ends in an error or its score is under .5"
    yield rate_line("errors", "fails after a failure", after, "step", note)
    yield rate_line("errors", "fails otherwise", calm, "step")
    yield rate_line(
        "errors", "recovery rate", found.recovery.rate, "injected error", trust.recovery(found)
    )


def _costs(found: Figures) -> Iterator[Line]:
    costs = found.cost
    missing = costs.runs - costs.priced
    unpriced = f"{format.count(missing, 'run')} of unknown cost" if missing else None
    note = joined(unpriced)
    runs, steps = format.count(costs.runs, "run"), format.count(costs.steps, "step")
    yield Line(of="cost", name="all runs", value=money(costs.total), n=runs, note=note)
    yield Line(of="cost", name="a run", value=money(costs.per_run), n=runs)
    yield Line(of="cost", name="a step", value=money(costs.per_step), n=steps)
    yield Line(
        of="cost",
        name="a resolved task",
        value=money(costs.per_resolved),
        n=format.count(costs.resolved, "passed run"),
        note="what all runs of known outcome cost, shared among those that passed",
    )
    cached = "" if costs.from_cache is not None else "no run says what it read from a cache"
    yield Line(of="cost", name="input from cache", value=share(costs.from_cache), note=cached)
