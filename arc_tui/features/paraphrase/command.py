"""`arc experiment paraphrase`: a failing task in other words; is it the wording, or the model?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    estimate_line,
    estimate_option,
    json_option,
    limits,
    live_options,
    open_store,
    print_table,
    print_views,
    refuse_missing,
    refuse_unanswered,
    show_estimate,
)
from arc_tui.experiments.progress import with_status
from arc_tui.experiments.request import views_of
from arc_tui.features.paraphrase.run import ParaphraseRequest, estimate_cost, run_paraphrase_test
from arc_tui.features.paraphrase.view import ParaphraseView, WordingRow
from arc_tui.ui import format
from replay.errors import ArcError
from replay.written import called
from taxonomy import goals
from taxonomy.paraphrase_test import paraphrases

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_WIDTH = 60


@click.command()
@click.argument("traces", type=RUN_NAME, nargs=-1, required=True, metavar="TRACE…")
@click.option(
    "--paraphrases",
    "file",
    type=_FILE,
    help="A TOML file with your paraphrases; else a model is asked for some.",
)
@click.option("-n", "count", type=click.IntRange(1, 10), default=3, help="Paraphrases to ask for.")
@click.option("-k", "samples", type=click.IntRange(1, 100), default=1, help="Samples of a wording.")
@click.option("--judge", metavar="NAME", help="Who scores the answers; `demo` scores by rule.")
@click.option("--writer", metavar="NAME", help="Who writes the paraphrases; else the model.")
@click.option("--step", type=click.IntRange(min=0), help="The step to score; else where it broke.")
@click.option("--whole", is_flag=True, help="Score every step of a road, not the one that broke.")
@click.option("--message", type=click.IntRange(min=0), help="The message; else the user's first.")
@click.option("--goals", "goals_file", type=_FILE, help="A TOML file with the goals of tasks.")
@live_options
@estimate_option
@json_option
@db_option
def paraphrase(
    traces: tuple[str, ...],
    file: Path | None,
    count: int,
    samples: int,
    judge: str | None,
    writer: str | None,
    step: int | None,
    whole: bool,
    message: int | None,
    goals_file: Path | None,
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Ask a failing task in other words, and let a judge score the answers. Runs no tool.

    Scores that range more than .15 with the wording are the wording's doing; under .08 it fails
    however it is asked. Exit code 0: wordings were compared; 1: none could be; 2: answers are
    not stored.
    """
    if whole and step is not None:
        raise click.UsageError("--whole scores every step, --step one of them: give one")
    with open_store(db) as store:
        request = ParaphraseRequest(
            traces=traces,
            model=options["model"],
            judge=judge,
            writer=writer,
            paraphrases=paraphrases.read(file) if file is not None else None,
            file=called(file.name) if file is not None else "",
            count=count,
            samples=samples,
            message=message,
            step=step,
            whole=whole,
            goals=goals.read(goals_file) if goals_file is not None else None,
            live=options["live"],
            limits=limits(options),
        )
        if show_estimate(
            lambda: estimate_cost(store, request),
            estimate_line,
            only=only_estimate,
            live=request.live,
            as_json=as_json,
        ):
            return 0
        views: dict[str, ParaphraseView] = {}
        try:
            work = views_of(run_paraphrase_test, store, request)
            for view in with_status(work, _line, console(err=True)):
                views[view.trace] = view
        except ArcError:  # what was judged until then is worth its place on the screen
            print_views(views.values(), as_json, _print)
            raise
    print_views(views.values(), as_json, _print)
    refuse_missing(sum(view.missing for view in views.values()), judge or options["model"])
    refuse_unanswered(
        wanted=any(view.model is not None and view.rows for view in views.values()),
        answers=sum(view.asked + view.kept for view in views.values()),
    )
    return 0 if any(view.surface is not None for view in views.values()) else 1


def _line(view: ParaphraseView) -> str:
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    wordings = f"{len(view.rows)} of {format.count(view.total, 'wording')}"
    return f"{view.trace[:8]} {wordings}, {view.asked} asked, {usd}"


def _print(out: Console, view: ParaphraseView) -> None:
    """The verdict, what a reader must know of it, a row a wording, what it rests on."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    head = ["", "score", "spread", "judged", "departs", "answer", "why", "wording"]
    print_table(out, head, [_cells(row) for row in view.rows])
    for text in view.refused:
        shown = format.cut(format.one_line(text.text), _WIDTH)
        said = f"not tried: “{shown}” ({format.one_line(text.by)}): {format.one_line(text.why)}"
        out.print(Text(said, "yellow"), soft_wrap=True)
    out.print()
    for line in _footer(view):
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)


def _cells(row: WordingRow) -> list[Text | str]:
    judged = f"step {row.steps[-1]}" if len(row.steps) == 1 else f"{len(row.steps)} steps"
    return [
        row.label,
        format.score(row.score),
        format.score(row.spread),
        judged if row.steps else format.UNKNOWN,
        format.UNKNOWN if row.departs is None else str(row.departs),
        format.cut(format.one_line(row.answer), _WIDTH),
        format.cut(format.one_line(row.why or row.note), _WIDTH),
        format.cut(format.one_line(row.text), _WIDTH),
    ]


def _footer(view: ParaphraseView) -> Iterator[str]:
    if view.surface is not None:
        spread = view.surface
        without = (
            f"; of the paraphrases alone {view.paraphrases_range:.2f}"
            if view.paraphrases_range is not None
            else ""
        )
        yield (
            f"range {spread.range:.2f}{without}; variance {spread.variance:.3f}"
            f" ({spread.population_variance:.3f} of the population)"
        )
    if view.model is None:
        return
    at = "every step of its road" if view.broke is None else f"step {view.broke}"
    spent = format.usd(view.spent_usd, complete=view.spent_complete)
    yield (
        f"message {view.message} in other words, answered by {view.model}, scored at {at} by"
        f" {view.judge} · {format.count(view.k, 'sample')} each · {view.asked} asked,"
        f" {view.kept} kept · spent {spent}"
    )
