"""The tables of `arc pareto`: runs behind a bar, weeks, before and after, who agrees with whom."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table
from arc_tui.views.calibration.tables import counted, short
from arc_tui.views.failures.view import BarRow, FailuresView
from arc_tui.views.failures.words import WHO, Labelled, agreement, card, told
from taxonomy.change import Change
from taxonomy.pareto import RunBehind
from taxonomy.sources_agree import Differ, SourcesAgree
from taxonomy.trend import BeforeAfter, Trend, Week

LABEL = 16

SHOWN = 5
"""Runs named for one pair of classes; `--json` names all of them."""

WEEKS = "of each week's runs the failed ones; of these the share of each class"
OF_ALL = (
    "shares are of all runs of known outcome, intervals Wilson's at 95 %; p is Fisher's, read for"
    " all classes together (Holm)"
)
CLUSTERED = "runs of one task are counted as independent: where they are not, less is certain"


def print_runs(out: Console, view: FailuresView, rows: Sequence[BarRow]) -> None:
    """Each bar explained, then the runs behind it."""
    for place, row in enumerate(rows):
        if place:
            out.print()
        out.print(Text(format.one_line(row.label), "bold"), soft_wrap=True)
        print_labelled(out, card(view, row))
        out.print()
        columns = ["", "id", "run", "step", "by", "owner", "why"]
        print_table(out, columns, [_run(view, run) for run in row.runs])


def print_labelled(out: Console, lines: Sequence[Labelled]) -> None:
    for label, words in lines:
        out.print(Text.assemble((f"{label:<{LABEL}}", "dim"), words), soft_wrap=True)


def _run(view: FailuresView, run: RunBehind) -> list[Text | str]:
    return [
        "█" if run.accepted else "░" if run.source is None else "▒",
        run.trace[:8],
        view.name(run),
        format.UNKNOWN if run.step is None else str(run.step),
        told(run),
        format.one_line(run.owner) or format.UNKNOWN,
        format.one_line(run.why) or format.UNKNOWN,
    ]


def print_trend(out: Console, found: Trend) -> None:
    """A row a week, a column a class."""
    columns = ["week", "failed", *(format.one_line(label) for label in found.classes)]
    print_table(out, columns, [_week(week) for week in found.weeks])
    out.print(Text(f"{WEEKS}; {CLUSTERED}", "dim"), soft_wrap=True)


def _week(week: Week) -> list[Text | str]:
    shares = [
        f"{each.runs} {short(each.rate.value)}" if each.runs else format.UNKNOWN
        for each in week.classes
    ]
    return [week.week, counted(week.failed), *shares]


def print_before_after(out: Console, found: BeforeAfter) -> None:
    """A row a class: its share before and after, and what that shows."""
    columns = ["", f"before {found.since}", "since", "p", ""]
    print_table(out, columns, [_change(each) for each in (found.failed, *found.classes)])
    undated = format.count(found.undated, "run")
    left_out = [f"{undated} without a time left out"] if found.undated else []
    out.print(Text("; ".join([OF_ALL, CLUSTERED, *left_out]), "dim"), soft_wrap=True)


def _change(change: Change) -> list[Text | str]:
    style = "bold" if change.beyond_chance else "dim"
    return [
        format.one_line(change.name),
        counted(change.before),
        counted(change.since),
        "" if change.p is None else _p(change.p),
        Text(change.reading or "", style),
    ]


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}".replace("0.", ".", 1)


def print_agreement(out: Console, found: Sequence[SourcesAgree]) -> None:
    """Each pair of sources in words, then how often they said which instead of which."""
    print_labelled(out, agreement(found))
    for pair in found:
        if pair.differ:
            out.print()
            columns = [WHO[pair.first], WHO[pair.second], "runs", ""]
            print_table(out, columns, [_differ(each) for each in pair.differ])


def _differ(each: Differ) -> list[Text | str]:
    return [each.first.value, each.second.value, str(len(each.traces)),
            " ".join(trace[:8] for trace in each.traces[:SHOWN])]  # fmt: skip
