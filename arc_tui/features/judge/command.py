"""`arc score`: a judge's opinion of each step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    estimate_line,
    json_option,
    limits,
    live_options,
    open_store,
    print_line,
    print_table,
    print_views,
    refuse_missing,
    refuse_unanswered,
    show_estimate,
)
from arc_tui.features.judge.run import ScoringRequest, estimated, judging
from arc_tui.ui import format
from arc_tui.views.scores import ScoreRow, ScoresView
from replay.errors import ArcError
from replay.statistics import Rate
from replay.written import called
from taxonomy import goals
from taxonomy.judge.rubrics import Mode

WIDTH = 90


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE…")
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    default="step",
    show_default=True,
    help="A step by its goal alone; five items of it with what is around it; the whole run.",
)
@click.option("-k", "samples", type=click.IntRange(1, 100), default=1, help="Samples of each.")
@click.option(
    "--goals",
    "goals_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with the goals of tasks and their weights.",
)
@live_options
@click.option("--estimate", "only_estimate", is_flag=True, help="Say what it would ask; ask none.")
@json_option
@db_option
def score(
    traces: tuple[str, ...],
    mode: Mode,
    samples: int,
    goals_file: Path | None,
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Let a judge score the steps of runs; --model names it, and is better of another family.

    --model demo asks no model: it shows the rules' own scores. The judge never sees how a run
    ended. Exit code 0: something was scored; 1: nothing could be; 2: answers are not stored.
    """
    with open_store(db) as store:
        request = ScoringRequest(
            traces=traces,
            model=options["model"],
            mode=mode,
            samples=samples,
            goals=goals.read(goals_file) if goals_file else None,
            goals_name=called(goals_file.name) if goals_file else "",
            live=options["live"],
            limits=limits(options),
        )
        if show_estimate(
            lambda: estimated(store, request),
            estimate_line,
            only=only_estimate,
            live=request.live,
            as_json=as_json,
        ):
            return 0
        views: dict[str, ScoresView] = {}
        try:
            _drain(judging(store, request), views)
        except ArcError:  # what was scored until then is kept, and worth its place on the screen
            print_views(views.values(), as_json, print_scores)
            raise
    print_views(views.values(), as_json, print_scores)
    refuse_missing(sum(view.missing for view in views.values()), options["model"])
    refuse_unanswered(
        wanted=any(view.refused for view in views.values()),
        answers=sum(view.asked + view.kept for view in views.values()),
    )
    return 0 if any(view.scored for view in views.values()) else 1


def _drain(work: Iterator[ScoresView], views: dict[str, ScoresView]) -> None:
    """Run to the end with a progress line where stderr is a terminal; the last view of each."""
    out = console(err=True)
    spent = TextColumn("{task.fields[spent]}")
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), spent)
    with Bar(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None, spent="")
        for view in work:
            views[view.trace] = view
            usd = format.usd(view.spent_usd, complete=view.spent_complete)
            progress = f"{view.asked} asked, {usd}"
            bar.update(task, completed=view.done, total=view.total, spent=progress)


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
        yield f"yes in {_rate(view.yes)} of the items that apply"
    server = f" at {view.server}" if view.server else ""
    goals = f" · goals {view.goals}" if view.goals else ""
    samples = f" · {format.count(view.k, 'sample')} each" if view.k else ""
    spent = format.usd(view.spent_usd, complete=view.spent_complete)
    yield (
        f"judge {view.judge}{server} · rubric {view.rubric}{goals}{samples}"
        f" · {view.refused} refused · {view.asked} asked, {view.kept} kept · spent {spent}"
    )
    if view.scored:
        yield f"kept as {view.by}"


def _rate(rate: Rate) -> str:
    return f"{format.score(rate.value)} (n {rate.n}, {rate.low:.2f}–{rate.high:.2f})"
