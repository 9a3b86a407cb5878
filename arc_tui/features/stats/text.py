"""Every figure of some runs as a line: its value, its interval, what it counted, and a note on how
far it can be trusted.

Then the tables: groups side by side, what changed since a day, and how long calls took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from arc_tui.features.stats.view import CallTimes, Group
from arc_tui.ui import format
from replay.statistics import Rate
from taxonomy.metrics import cost, reliability
from taxonomy.metrics.change import Change
from taxonomy.metrics.cost import Money
from taxonomy.metrics.grounding import HELD_OUT, PRODUCTION
from taxonomy.metrics.reliability import Repeated
from taxonomy.stats.figures import BENCHMARK, Figures
from taxonomy.stats.gold import CallFigures
from taxonomy.stats.recovery import TASKS


def lines(found: Figures) -> Iterator[Line]:
    """The figures of some runs, all of them, in the order of the table."""
    yield from _outcome(found)
    yield from _calls(found)
    yield from _decay(found)
    yield from _steps(found)
    yield from goals(found)
    yield from trust(found)
    yield from wordings(found)
    yield from shapes(found)
    yield from users(found)
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
            yield _if_independent(each)
            times = f"flattery factor × {each.flattery:.2f}" if each.flattery is not None else None
            yield rate_line("trials", f"pass@{each.k}", each.pass_at, "task", joined(times))
    if len(found.repeated) == 1:
        yield Line(of="trials", name="pass^2", note="no task has two trials")


def _if_independent(each: Repeated) -> Line:
    """pass@1 to the power of k, which is read beside pass^k."""
    p = each.pass_one
    shown = f"pass^{each.k} if trials were independent, p = pass@1 {share(p.value)}"
    return rate_line("trials", f"p^{each.k}", each.independent, "task", shown)


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
        none = "no source gives gold actions. Try: arc gold import FILE"
        yield Line(of="calls", name="tool-call F1", note=none)
    for each in found.calls:
        yield from _call_lines(each)
    if found.plans:
        verdicts = ", ".join(f"{words} {count}" for words, count in found.plans.items())
        yield Line(
            of="tools",
            name="plan and execution",
            value="",
            n=all_runs(found.plans),
            note=f"plan by tool order: {verdicts}",
        )
    yield from _routing(found)
    yield from _plan(found)
    yield from _own_gold(found)
    if found.look_at:
        verdicts = ", ".join(f"{words} {count}" for words, count in found.look_at.items())
        yield Line(
            of="pyramid", name="look first at", value="", n=all_runs(found.look_at), note=verdicts
        )


def _routing(found: Figures) -> Iterator[Line]:
    """Whom work was given to, where gold or a run gives it to anybody."""
    if found.routing.n:
        note = "hand-overs to agents and people, as in gold, in its order"
        yield rate_line("routing", "routing accuracy", found.routing, "run", note)


def _plan(found: Figures) -> Iterator[Line]:
    """Stated plans against those of gold."""
    plan = found.plan
    if plan is None:
        return
    unstated = f"{format.count(plan.unstated, 'run')} without a plan" if plan.unstated else None
    note = joined("todo lists and plans that runs state, by their words", unstated)
    yield rate_line("plan", "plan F1", plan.f1, "task", note)
    yield rate_line("plan", "plan precision", plan.precision, "stated step")
    yield rate_line("plan", "plan recall", plan.recall, "gold step")


def _own_gold(found: Figures) -> Iterator[Line]:
    """How many of the runs began before their gold was first seen."""
    own = found.own_gold
    if own is None:
        return
    undated = f"unknown for {format.number(own.undated)}" if own.undated else None
    note = joined(f"hindsight: {format.number(own.hindsight)} began before it was seen", undated)
    yield Line(of="gold", name="your gold", value="", n=format.count(own.runs, "run"), note=note)


def _call_lines(each: CallFigures) -> Iterator[Line]:
    order = _ORDERS[each.order]
    if each.what == "tool names":
        note = "gold's tools in gold's order, arguments ignored"
        yield rate_line("tools", "tool order F1", each.f1, "task", note)
        yield rate_line("tools", "tool order recall", each.recall, "gold call")
        return
    of = "calls" if each.what == "all calls" else "writes"
    yield rate_line(of, "tool-call F1", each.f1, "task", order)
    if each.order == "any":
        yield rate_line(of, "precision", each.precision, "call")
        yield rate_line(of, "recall", each.recall, "gold call")


_BASES: dict[reliability.Basis, str] = {
    "label": "the label `length`",
    "gold length": "gold actions",
    "steps of passing runs": "median steps of the passing runs of the task",
    "own steps": "the run's own steps",
}


GDS, VAF, MOP = (
    "graceful degradation score", "variance amplification factor", "meltdown onset point",
)  # fmt: skip
"""The figures of the article that a table names by their letters."""


def _decay(found: Figures) -> Iterator[Line]:
    curve = found.decay
    basis = f"by {_BASES[found.decay_basis]}"
    for at, bucket in enumerate(curve.buckets):
        note = joined(basis, found.decay_warning, _unsized(curve)) if at == 0 else ""
        yield rate_line("length", f"pass@1 {bucket.label}", bucket.passed, "run", note)
    if len(curve.buckets) < 2:
        yield Line(of="length", name="GDS, VAF, MOP", note="needs tasks of two different lengths")
        return
    n = format.count(len(curve.buckets), "bucket")
    yield Line(of="length", name="GDS", value=share(curve.graceful), n=n,
               note=joined(GDS, reliability.degradation_reading(curve.graceful)))  # fmt: skip
    varies = joined(VAF, reliability.variance_reading(curve.variance) or "no run passed")
    yield Line(of="length", name="VAF", value=share(curve.variance), n=n, note=varies)
    onset = joined(MOP, _onset(curve))
    yield Line(of="length", name="MOP", value=curve.onset or "none", n=n, note=onset)


def _onset(curve: reliability.Decay) -> str:
    """What the meltdown onset point says, and whether chance alone may have made it."""
    first = curve.buckets[0].passed
    at = next((each.passed for each in curve.buckets if each.label == curve.onset), None)
    if at is None:
        return "no length bucket is 15 points below the shortest"
    doubt = "; its interval overlaps that of the shortest" if at.high >= first.low else ""
    return f"checkpoints or human review from here on{doubt}"


def _unsized(curve: reliability.Decay) -> str | None:
    return f"{format.count(curve.unsized, 'run')} without a size" if curve.unsized else None


def _steps(found: Figures) -> Iterator[Line]:
    after, calm = found.persistence.after_failure, found.persistence.after_success
    note = "a step fails where a call ends in an error or its score is under .5"
    yield rate_line("errors", "fails after a failure", after, "step", note)
    yield rate_line("errors", "fails otherwise", calm, "step")
    yield rate_line(
        "errors", "recovery rate", found.recovery.rate, "injected error", recovery(found)
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
        note="cost of all runs with a known outcome, per run that passed",
    )
    cached = "" if costs.from_cache is not None else "no run reports cache reads"
    yield Line(of="cost", name="input from cache", value=share(costs.from_cache), note=cached)


class Line(Struct, frozen=True, kw_only=True):
    """One figure in words; `of` names the part of the table, `n` what was counted."""

    of: str
    name: str
    value: str = format.UNKNOWN
    interval: str = ""
    n: str = ""
    note: str = ""


def rate_line(of: str, name: str, rate: Rate, counted: str, note: str = "") -> Line:
    """A line of a rate, unknown where nothing was counted."""
    if rate.value is None:
        return Line(of=of, name=name, note=note)
    return Line(
        of=of,
        name=name,
        value=share(rate.value),
        interval=interval(rate),
        n=format.count(rate.n, counted),
        note=note,
    )


def joined(*notes: str | None) -> str:
    """The notes that there are, on one line."""
    return " · ".join(note for note in notes if note)


def all_runs(counts: dict[str, int]) -> str:
    """How many runs were counted."""
    return format.count(sum(counts.values()), "run")


def share(value: float | None) -> str:
    """A rate or a mean in 0..1 to three digits."""
    return format.UNKNOWN if value is None else f"{value:.3f}"


def interval(rate: Rate) -> str:
    return f"{rate.low:.3f}–{rate.high:.3f}" if rate.n else ""


def money(amount: Money) -> str:
    return format.usd(amount.cost_usd, complete=amount.cost_complete)


def recovery(found: Figures) -> str:
    """What a recovery rate rests on, or why there is none."""
    given = found.recovery
    if not given.rate.n and not given.unknown:
        return (
            "no errors were injected (`arc experiment inject-error`, --injections FILE, or the"
            " label `injected`)"
        )
    unknown = f"{format.count(given.unknown, 'run')} unknown" if given.unknown else None
    few = f"fewer than {TASKS[0]}: a hint" if given.rate.n < TASKS[0] else None
    away = f"{given.elsewhere} at another step than 2 or 3" if given.elsewhere else None
    return joined("corrected within two steps", unknown, few, away)


def goals(found: Figures) -> Iterator[Line]:
    """The goals of a file, weighted; nothing where none was given."""
    given = found.goals
    if given is None:
        return
    whose = f"scores by {', '.join(given.sources)}" if given.sources else "no step has a score"
    late = f"hindsight in {format.count(given.hindsight, 'run')}: first seen after it had begun"
    undated = f"{format.count(given.undated, 'run')} of unknown start"
    notes = (
        whose,
        late if given.hindsight else None,
        undated if given.undated else None,
        f"goals {given.version}",
    )
    yield rate_line("goals", "weighted score", given.weighted, "run", joined(*notes))
    yield rate_line("goals", "without weights", given.plain, "run")
    for goal in given.goals:
        name = format.cut(format.one_line(goal.text), 32)
        owner = f"owner {format.one_line(goal.owner)}" if goal.owner else None
        yield rate_line("goals", name, goal.score, "run", joined(f"weight {goal.weight}", owner))


def trust(found: Figures) -> Iterator[Line]:
    kept = found.held_out
    if kept is None or kept.gap is None:
        yield Line(of="trust", name="held-out gap", note="no tasks on both sides of a split")
    else:
        tasks = format.count(kept.kept_out.n, "task")
        whose = f"{kept.gap.reading}, if nothing was tuned on the {tasks}"
        if kept.split == "kept":
            whose = f"{kept.gap.reading}; the held-out tasks"
        if kept.split == "arc's own":
            whose += f" (a split by digest, {float(HELD_OUT):.0%}; --hold-out keeps it)"
        yield Line(
            of="trust",
            name="held-out gap",
            value=f"{kept.gap.value:+.3f}",
            interval=f"{kept.gap.low:+.3f} to {kept.gap.high:+.3f}",
            n=f"{kept.others.n} against {format.count(kept.kept_out.n, 'task')}",
            note=whose,
        )
    if found.contaminated is None:
        why = f"needs three runs of a benchmark of {BENCHMARK} tasks or more"
        yield Line(of="trust", name="contamination", note=why)
    else:
        yield Line(
            of="trust",
            name="contamination",
            value="risk: retire it" if found.contaminated else "no sign",
            n=format.count(len(found.series), "run of it", "runs of it"),
            note=f"above .92 three times in a row; last {share(found.series[-1].value)}",
        )


_BRIEF = {"surface sensitivity": "surface", "consistent capability gap": "capability gap"}


def wordings(found: Figures) -> Iterator[Line]:
    """A line a task asked in other words, and what they come to together."""
    if not found.wordings:
        why = "no task was paraphrased (arc experiment paraphrase, or the label `paraphrase_of`)"
        yield Line(of="wording", name="surface variation", note=why)
        return
    readings = Counter(_BRIEF.get(each.reading, each.reading) for each in found.wordings)
    counts = ", ".join(f"{words} {count}" for words, count in readings.most_common())
    n = format.count(len(found.wordings), "case")
    yield Line(of="wording", name="surface variation", value="", n=n, note=counts)
    widest = sorted(found.wordings, key=lambda each: -each.spread.range)
    for each in widest[:_SHOWN]:
        spread = each.spread
        variance = (
            f"variance {spread.variance:.3f} ({spread.population_variance:.3f} of the population)"
        )
        yield Line(
            of="wording",
            name=f"surface variation {format.cut(format.one_line(each.task), 24)}",
            value=f"range {spread.range:.3f}",
            n=format.count(spread.n, "wording"),
            note=joined(each.reading, variance, format.one_line(each.by)),
        )
    if len(widest) > _SHOWN:
        more = f"{len(widest) - _SHOWN} more, none wider (--json)"
        yield Line(of="wording", name="", value="", note=more)


_SHOWN = 8
"""Cases that have a line of their own, the widest first."""


def shapes(found: Figures) -> Iterator[Line]:
    counts = ", ".join(f"{name} {count}" for name, count in found.shapes.items())
    if not counts:
        yield Line(of="shapes", name="of the runs", note="no run has a shape")
        return
    yield Line(of="shapes", name="of the runs", value="", n=all_runs(found.shapes), note=counts)
    far = found.production
    if far is None:
        why = "no production runs with a shape (--production QUERY names them)"
        yield Line(of="shapes", name="against production", note=why)
        return
    few = f"fewer than {PRODUCTION} production runs" if far.runs[1] < PRODUCTION else None
    yield Line(
        of="shapes",
        name="against production",
        value=f"{far.points[far.widest]:+.0f} points",
        n=f"{far.runs[0]} against {far.runs[1]} runs",
        note=joined(f"{far.widest}: {far.reading}", f"{far.total:.0f} points in all", few),
    )


def users(found: Figures) -> Iterator[Line]:
    """What users did, where the source keeps it; nothing where no run's source would."""
    for name, each in found.proxies.rates.items():
        yield rate_line("users", name, each, "run")


NOT_INDEPENDENT = (
    "95 % Wilson intervals for independent counts; runs of one task and calls of one run are not"
    " independent: their intervals may be too narrow"
)
COMPARE = "variants are compared at cost per resolved task, never at cost per run"


HEAD = ("runs", "passed", "95 %", "pass@1", "pass^k", "flattery", "call F1", "GDS", "MOP",
        "a run", "a resolved task", "× cheapest")  # fmt: skip


def cells(group: Group, cheapest: Money) -> list[str]:
    """A group under `HEAD`, its figures in the same words as the lines."""
    found = group.figures
    last = found.headline
    calls = found.calls[0].f1 if found.calls else None
    times = cost.times_cheaper(found.cost.per_resolved, cheapest)
    return [
        str(found.runs),
        share(found.outcome.rate.value),
        interval(found.outcome.rate),
        _in_brief(found.repeated[0].pass_one, "") if last else format.UNKNOWN,
        _in_brief(last.pass_hat, f", k = {last.k}") if last else format.UNKNOWN,
        f"{last.flattery:.2f}" if last and last.k > 1 and last.flattery else format.UNKNOWN,
        _in_brief(calls, "") if calls else format.UNKNOWN,
        share(found.decay.graceful),
        found.decay.onset or format.UNKNOWN,
        money(found.cost.per_run),
        money(found.cost.per_resolved),
        f"{times:.2f}" if times is not None else format.UNKNOWN,
    ]


def _in_brief(rate: Rate, more: str) -> str:
    """A rate with its interval and n in one cell."""
    if rate.value is None:
        return format.UNKNOWN
    return f"{rate.value:.3f} ({interval(rate)}, n = {rate.n}{more})"


def cheapest(groups: Sequence[Group]) -> Money:
    """The lowest cost per resolved task that is known in full."""
    known = [group.figures.cost.per_resolved for group in groups]
    whole = [each for each in known if each.cost_complete and each.cost_usd is not None]
    return min(whole, key=lambda each: each.cost_usd or 0.0, default=cost.NOTHING_KNOWN)


def shape_table(groups: Sequence[Group]) -> list[list[str]]:
    """A head and a row a group: the share of its runs of each shape, and how many have one."""
    shapes = sorted({shape for group in groups for shape in group.figures.shapes})
    table = [[*(groups[0].group if groups else ()), *shapes, "n"]]
    for group in groups:
        counts = group.figures.shapes
        n = sum(counts.values())
        shares = (share(counts.get(shape, 0) / n) if n else format.UNKNOWN for shape in shapes)
        values = (value or format.UNKNOWN for value in group.group.values())
        table.append([*values, *shares, format.count(n, "run")])
    return table if shapes else table[:1]


def trend_cells(change: Change) -> list[str]:
    """What moved, as a row of its table."""
    known = change.difference is not None and change.low is not None and change.high is not None
    return [
        change.name,
        share(change.before.value),
        interval(change.before),
        str(change.before.n),
        share(change.since.value),
        interval(change.since),
        str(change.since.n),
        f"{change.difference:+.3f}" if known else format.UNKNOWN,
        f"{change.low:+.3f} to {change.high:+.3f}" if known else "",
        format.UNKNOWN if change.p is None else f"{change.p:.3f}",
        change.reading or "",
    ]


MOST = 20
"""Lines of a table; `--json` has all of them."""

LATENCY_HEAD = ("", "latency", "p50", "p90", "p99", "n", "")
DIGITS = "percentiles by nearest rank, rounded down to two digits: actual values < 10 % higher"


def latency_rows(found: Sequence[CallTimes]) -> list[list[str]]:
    """The lines of the table under `LATENCY_HEAD`; none where no call has a time."""
    if not any(each.timed for each in found):
        return []
    shown = found[:MOST]
    before = [None, *(each.kind for each in shown)]
    return [
        [each.kind if each.kind != last else "", *_time_cells(each)]
        for each, last in zip(shown, before, strict=False)
    ]


def _time_cells(each: CallTimes) -> list[str]:
    name = format.cut(format.one_line(each.name), 32) if each.name else "model not recorded"
    times = map(format.duration, (each.p50_ns, each.p90_ns, each.p99_ns))
    calls = format.count(each.calls, "call")
    return [name, *times, calls, _untimed(each)]


def _untimed(each: CallTimes) -> str:
    if not each.timed:
        return "the source gives no times"
    untimed = each.calls - each.timed
    return f"{format.number(untimed)} without a time left out" if untimed else ""


def latency_note(found: Sequence[CallTimes]) -> str:
    """What is said below the table, or in its place."""
    if not found:
        return "latency: no call was recorded"
    if not any(each.timed for each in found):
        calls = format.count(sum(each.calls for each in found), "call")
        return f"latency: unknown, the source gives no times for {calls}"
    more = len(found) - MOST
    left = f"; {more} more in --json" if more > 0 else ""
    return f"{DIGITS}{left}"
