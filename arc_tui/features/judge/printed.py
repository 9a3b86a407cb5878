"""What `arc judge` prints: scores of steps, classes of runs, verdicts on pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from arc_tui.cli import print_line, print_table
from arc_tui.features.judge.classify import ClassifyView, classes_line, row_text
from arc_tui.features.judge.pair import VERDICTS, PairsView
from arc_tui.ui import format
from arc_tui.views.scores import ScoreRow, ScoresView
from replay.statistics import Rate

WIDTH = 90


def print_scores(out: Console, view: ScoresView) -> None:
    """A sentence, what a reader must know of it, a row a step, the goals, what it rests on."""
    print_line(out, _sentence(view), "bold")
    for notice in view.notices:
        print_line(out, format.plain(notice), "yellow")
    out.print()
    rows = [*view.rows, *([view.overall] if view.overall else [])]
    print_table(out, ["step", "score", "spread", "why"], [_cells(row) for row in rows])
    if view.goal_rows:
        out.print()
        print_table(out, ["goal", "weight", "owner", "step", "score"], _goal_cells(view))
    out.print()
    for line in _footer(view):
        print_line(out, format.plain(line), "dim")


MOST_WHOLE = 5
"""Runs whose scores are printed step by step; of more, each has a line."""


def print_scores_of_many(out: Console, views: Sequence[ScoresView]) -> None:
    """A sentence, what a reader must know of them, a row a run, what they rest on."""
    first = views[0]
    scored = [view for view in views if view.scored]
    line = f"{len(scored)} of {format.count(len(views), 'run')} scored by {first.judge}"
    print_line(out, format.plain(f"{line}, mode {first.mode}"), "bold")
    for notice, count in Counter(each for view in views for each in view.notices).items():
        runs = "" if count == len(views) else f" ({format.count(count, 'run')})"
        print_line(out, format.plain(f"{notice}{runs}"), "yellow")
    out.print()
    rows = [_run_cells(view) for view in views]
    print_table(out, ["id", "scored", "mean", "run", "lowest", "why"], rows)
    out.print()
    usd = sum(view.spent_usd for view in views)
    complete = all(view.spent_complete for view in views)
    facts = [
        f"judge {first.judge}" + (f" at {first.server}" if first.server else ""),
        f"rubric {first.rubric}",
        *([f"{format.count(first.k, 'sample')} each"] if first.k else []),
        f"{sum(view.refused for view in views)} refused",
        f"{sum(view.calls for view in views)} calls",
        f"{sum(view.cached for view in views)} cached",
        f"spent {format.usd(usd, complete=complete)}",
    ]
    print_line(out, format.plain(" · ".join(facts)), "dim")
    if scored:
        print_line(out, format.plain(f"stored as {first.by}"), "dim")


def _run_cells(view: ScoresView) -> list[Text | str]:
    """A run's line; its lowest step stands for what to look at first."""
    known = [(row.value, row) for row in view.rows if row.value is not None]
    lowest = min(known, key=lambda each: each[0])[1] if known else None
    shown = lowest or next(iter(view.rows), None)
    return [
        view.trace[:8],
        f"{view.scored} of {view.total}",
        format.score(view.mean),
        format.score(view.overall.value if view.overall else None),
        format.UNKNOWN if lowest is None else f"{lowest.step} at {format.score(lowest.value)}",
        format.cut(format.one_line(_why(shown)), WIDTH) if shown else "",
    ]


def _sentence(view: ScoresView) -> str:
    sentence = f"{view.trace[:8]}: {view.scored} of {format.count(view.total, 'step')} scored"
    sentence = f"{sentence} by {format.plain(view.judge)}, mode {view.mode}"
    if view.mean is not None:
        sentence = f"{sentence}, {format.score(view.mean)} on average"
    if view.overall is not None and view.overall.value is not None:
        sentence = f"{sentence}; the run {format.score(view.overall.value)}"
    return sentence


def _cells(row: ScoreRow) -> list[Text | str]:
    return [
        "run" if row.step is None else str(row.step),
        format.score(row.value),
        format.score(row.spread),
        format.cut(format.one_line(_why(row)), WIDTH),
    ]


def _why(row: ScoreRow) -> str:
    """What failed, else the reason given, else what stands in its place."""
    failed = [f"✗ {item.name}: {item.because}" for item in row.items if item.held is False]
    reasons = failed or [item.because for item in row.items if item.held is None and item.because]
    return " · ".join(part for part in (row.note, *reasons) if part)


def _goal_cells(view: ScoresView) -> list[list[Text | str]]:
    return [
        [
            format.cut(format.one_line(goal.text), WIDTH // 2),
            str(goal.weight),
            format.one_line(goal.owner) or format.UNKNOWN,
            format.UNKNOWN if goal.step is None else str(goal.step),
            format.score(goal.value),
        ]
        for goal in view.goal_rows
    ]


def _footer(view: ScoresView) -> Iterator[str]:
    if view.weighted is not None:
        part = f"over {view.weighted.goals} of {format.count(view.weighted.of, 'goal')}"
        yield f"weighted by goals {format.score(view.weighted.value)} {part}"
    if view.yes is not None:
        yield f"yes in {_rate(view.yes)} of the applicable items"
    server = f" at {view.server}" if view.server else ""
    goals = f" · goals {view.goals}" if view.goals else ""
    samples = f" · {format.count(view.k, 'sample')} each" if view.k else ""
    spent = format.usd(view.spent_usd, complete=view.spent_complete)
    yield (
        f"judge {view.judge}{server} · rubric {view.rubric}{goals}{samples}"
        f" · {view.refused} refused · {view.calls} calls · {view.cached} cached · spent {spent}"
    )
    if view.scored:
        yield f"stored as {view.by}"


def _rate(rate: Rate) -> str:
    return f"{format.score(rate.value)} (n {rate.n}, {rate.low:.2f}–{rate.high:.2f})"


def print_classified(out: Console, view: ClassifyView) -> None:
    """A sentence, what a reader must know of it, a row a run, what it rests on."""
    suggested = view.count("suggested")
    line = f"{suggested} of {format.count(view.total, 'run')} classified by {view.judge}"
    print_line(out, format.plain(line), "bold")
    classes = classes_line(view)
    if classes:
        print_line(out, classes)
    for notice in view.notices:
        print_line(out, format.plain(notice), "yellow")
    out.print()
    rows: list[list[Text | str]] = []
    for row in view.rows:
        step, name, whose, reason = row_text(row)
        shown = format.cut(format.one_line(reason), WIDTH)
        rows.append([row.trace[:8], step, format.one_line(name), whose, shown])
    print_table(out, ["id", "step", "class", "attribution", "reason"], rows)
    out.print()
    server = f" at {view.server}" if view.server else ""
    spent = format.usd(view.spent_usd, complete=view.spent_complete)
    facts = [
        f"judge {view.judge}{server}",
        f"{view.count('none')} without a failure",
        f"{view.count('no quote')} without a quote",
        f"{view.count('refused')} refused",
        f"{format.count(view.quotes_dropped, 'quote')} not found, dropped",
        f"{view.calls} calls",
        f"{view.cached} cached",
        f"spent {spent}",
    ]
    print_line(out, format.plain(" · ".join(facts)), "dim")
    if suggested and view.trust:
        print_line(out, format.plain(f"suggested tags, stored as {view.by}: {view.trust}"), "dim")


def print_pairs(out: Console, view: PairsView) -> None:
    """Each pair with its verdict and both answers, then how often the order decides."""
    for row in view.rows:
        line = f"A {row.a[:8]}, B {row.b[:8]}: {VERDICTS[row.verdict]}"
        print_line(out, line, "bold")
        for order in row.orders:
            said = "no answer" if order.better is None else _better(order.better)
            print_line(out, format.plain(f"  {order.first} first: {said}: {order.reason}"))
    for notice in view.notices:
        print_line(out, format.plain(notice), "yellow")
    out.print()
    found = view.bias
    if found is not None:
        rates = (("A better", found.a), ("B better", found.b), ("equal", found.equal),
                 ("inconclusive", found.inconclusive))  # fmt: skip
        print_line(out, " · ".join(f"{name} {_rate(rate)}" for name, rate in rates))
        print_line(
            out,
            f"position bias: in {found.towards_first} pairs the run shown first was named both"
            f" times, in {found.towards_second} the second",
        )
    server = f" at {view.server}" if view.server else ""
    spent = format.usd(view.spent_usd, complete=view.spent_complete)
    print_line(
        out,
        format.plain(
            f"judge {view.judge}{server} · {view.calls} calls · {view.cached} cached"
            f" · spent {spent}"
        ),
        "dim",
    )


def _better(name: str) -> str:
    return "equal" if name == "equal" else f"{name} is better"
