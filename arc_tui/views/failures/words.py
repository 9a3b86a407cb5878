"""What is said of failures in words: the same on the screen and from the command. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arc_tui import format
from arc_tui.views.calibration.tables import counted, estimate
from arc_tui.views.failures.view import BarRow, FailuresView
from taxonomy.classes import BY_CLASS, FailureClass
from taxonomy.findings import Source
from taxonomy.pareto import Bar, RunBehind, is_agents
from taxonomy.sources_agree import SourcesAgree

NO_OWNER = "nobody is named: [owners] in config.toml, or the owner of a goal"
NOT_NAMED = "neither a person nor a rule or judge names what went wrong in these runs"
OTHERS_DOING = "the {fault}'s doing: no edit of a prompt helps"
NONE_IN_COMMON = "no run in common"
NOTHING_IN_COMMON = "no run yet of which two of person, judge and rule named a failure"
WHO: dict[Source, str] = {
    "human": "person", "judge": "judge", "rule": "rule", "file": "file", "import": "import",
}  # fmt: skip

Labelled = tuple[str, str]
"""A label, "" for none, and what it is a label of."""


def sentence(view: FailuresView) -> str:
    """What to know first: the largest bar, and how much nobody named yet."""
    return " · ".join(_sentence(view))


def _sentence(view: FailuresView) -> Iterator[str]:
    counts = view.pareto
    bars = counts.all_bars
    if bars:
        first = max(bars, key=lambda bar: bar.count)
        failed = format.count(counts.failed, "failed run")
        yield f"{format.one_line(first.label)}: {first.count} of {failed}"
    else:
        yield format.count(counts.failed, "failed run") if counts.failed else "no failed runs"
    if counts.untagged:
        yield f"{format.number(counts.untagged)} not yet tagged"
    if counts.unknown:
        yield f"{format.number(counts.unknown)} of unknown outcome left out"


def chosen(view: FailuresView) -> str:
    """How failures are counted, where that is not the usual way."""
    split = f"by {view.asked.by}" if view.asked.by else ""
    return ", ".join(filter(None, [split, "every class" if view.asked.every else ""]))


def card(view: FailuresView, row: BarRow) -> tuple[Labelled, ...]:
    """A bar explained: what the class is, its usual cause and first fix, whose it is, how much."""
    return tuple(_card(view, row))


def _card(view: FailuresView, row: BarRow) -> Iterator[Labelled]:
    if row.bar is None:
        yield "means", NOT_NAMED
    else:
        entry = BY_CLASS[row.bar.failure]
        yield "means", entry.definition if entry.name is not FailureClass.OTHER else _other(row)
        if not is_agents(row.bar.fault):
            yield "whose", OTHERS_DOING.format(fault=row.bar.fault)
        for label, words in (
            ("looks like", entry.signature), ("cause", entry.cause), ("first fix", entry.fix),
        ):  # fmt: skip
            if words != format.UNKNOWN and is_agents(row.bar.fault):
                yield label, words
        yield "owner", owner(row.bar) or NO_OWNER
    said = f"{row.tagged} tagged, {row.count - row.tagged} suggested"
    more = f" · {said}" if row.bar is not None else ""
    yield "of failed", f"{counted(view.share(row))}{more}"


def _other(row: BarRow) -> str:
    if row.bar is not None and row.bar.sub:
        return "none of the five classes; this is what it was called"
    return "none of the five classes, and nobody said which"


def owner(bar: Bar) -> str:
    """Whose a bar is, "" for nobody's; `+1` where its runs have another owner too."""
    if bar.owner is None and bar.owners <= 1:
        return ""
    more = f" +{bar.owners - 1}" if bar.owners > 1 else ""
    return f"{format.one_line(bar.owner) or format.UNKNOWN}{more}"


def told(run: RunBehind) -> str:
    """Who says so of a run: a person or a judge by name, a rule as one."""
    match run.source:
        case None:
            return format.UNKNOWN
        case "human":
            return format.one_line(run.by)
        case "judge":
            return f"judge {format.one_line(run.by)}"
        case source:
            return WHO[source]


def agreement(pairs: Sequence[SourcesAgree]) -> tuple[Labelled, ...]:
    """Each pair of sources: how often they name the same class, and what they mix up most."""
    if not any(pair.same.n for pair in pairs):
        return (("", NOTHING_IN_COMMON),)
    return tuple(line for pair in pairs for line in _agreement(pair))


def _agreement(pair: SourcesAgree) -> Iterator[Labelled]:
    one, other = WHO[pair.first], WHO[pair.second]
    label = f"{one}, {other}"
    if not pair.same.n:
        yield label, NONE_IN_COMMON
        return
    yield label, f"same class {counted(pair.same)}"
    if pair.kappa.value is None:
        yield "", "κ not defined: one of them always says the same"
    else:
        yield "", f"κ {estimate(pair.kappa)}"
    yield "", f"same step {counted(pair.step)}"
    for each in pair.differ[:1]:
        runs = format.count(len(each.traces), "run")
        yield "", f"apart in {runs}: {one} {each.first}, {other} {each.second}"
