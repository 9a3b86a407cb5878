"""Can the figures be trusted, and does anyone outside agree? As lines of the table of `arc stats`.

Recovery from errors put in on purpose, goals and their weights, the held-out gap, contamination,
tasks in other words, shapes against production, and what users did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.stats.line import Line, all_runs, joined, rate_line, share
from taxonomy.stats.figures import BENCHMARK, Figures
from taxonomy.stats.grounding import HELD_OUT, PRODUCTION
from taxonomy.stats.injections import TASKS


def recovery(found: Figures) -> str:
    """What a recovery rate rests on, or why there is none."""
    given = found.recovery
    if not given.rate.n and not given.unknown:
        return "no errors were put in (`arc inject`, --injections FILE, or the label `injected`)"
    unknown = (
        f"{format.count(given.unknown, 'run')} of which nothing can be told"
        if given.unknown
        else None
    )
    few = f"fewer than {TASKS[0]}: a hint" if given.rate.n < TASKS[0] else None
    away = f"{given.elsewhere} at another step than 2 or 3" if given.elsewhere else None
    return joined("mended within two steps", unknown, few, away)


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
        whose = f"{kept.gap.reading}, if those {kept.kept_out.n} tasks were kept out of tuning"
        if kept.split == "kept":
            whose = f"{kept.gap.reading}; the tasks that --hold-out keeps out of sight"
        if kept.split == "arc's own":
            whose += f" (a split by digest, {float(HELD_OUT):.0%}; --hold-out keeps it)"
        yield Line(
            of="trust",
            name="held-out gap",
            value=f"{kept.gap.value:+.3f}",
            interval=f"{kept.gap.low:+.3f} to {kept.gap.high:+.3f}",
            n=f"{kept.others.n} against {kept.kept_out.n} tasks",
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
        why = "no task was asked in other words (arc vary, or the label `paraphrase_of`)"
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
