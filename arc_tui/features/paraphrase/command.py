"""`arc experiment paraphrase`: a failing task paraphrased; is it the wording, or the model?"""

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
    examples,
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
from arc_tui.experiments.models import spending_of
from arc_tui.experiments.progress import progress_line, spending_line, with_status
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


@click.command(
    epilog=examples(
        "arc experiment paraphrase shop-many-wishes-v5-0 --judge demo",
        "arc experiment paraphrase last -n 5 -k 8 --judge claude-sonnet-5-5 --estimate",
    )
)
@click.argument("traces", type=RUN_NAME, nargs=-1, required=True, metavar="TRACE…")
@click.option(
    "--paraphrases",
    "file",
    type=_FILE,
    help="A TOML file with your paraphrases; else a model writes some.",
)
@click.option("-n", "count", type=click.IntRange(1, 10), default=3, help="Paraphrases to write.")
@click.option("-k", "samples", type=click.IntRange(1, 100), default=1, help="Samples per wording.")
@click.option("--judge", metavar="NAME", help="The judge model; `demo` scores by rule.")
@click.option("--writer", metavar="NAME", help="The model that writes the paraphrases.")
@click.option("--step", type=click.IntRange(min=0), help="The step to score.")
@click.option("--whole", is_flag=True, help="Score every step, not only the break candidate.")
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
    """Paraphrase a failing task and let a judge score the responses. Runs no tool.

    A score range above .15 means surface sensitivity: the wording matters; under .08 a consistent
    capability gap. Exit code 0: wordings were compared; 2: none could be, or unfinished.
    """
    if whole and step is not None:
        raise click.UsageError("--whole and --step exclude each other")
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
            for view in with_status(work, lambda each: _line(each, request), console(err=True)):
                views[view.trace] = view
        except ArcError:  # what was judged by then is shown
            print_views(views.values(), as_json, _print)
            raise
    print_views(views.values(), as_json, _print)
    refuse_missing(sum(view.missing for view in views.values()), judge or options["model"])
    refuse_unanswered(
        wanted=any(view.model is not None and view.rows for view in views.values()),
        answers=sum(view.calls + view.cached for view in views.values()),
    )
    return 0 if any(view.surface is not None for view in views.values()) else 2


def _line(view: ParaphraseView, request: ParaphraseRequest) -> str:
    spent = spending_of(view)
    doing = f"Run {view.trace[:8]} · scoring wording"
    return progress_line(doing, len(view.rows), view.total, spent, request.limits)


def _print(out: Console, view: ParaphraseView) -> None:
    """The verdict, the notices, a row a wording, the evidence."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    head = ["", "score", "spread", "judged", "diverged", "response", "why", "wording"]
    print_table(out, head, [_cells(row) for row in view.rows])
    for text in view.refused:
        shown = format.cut(format.one_line(text.text), _WIDTH)
        said = f"skipped: “{shown}” ({format.one_line(text.by)}): {format.one_line(text.why)}"
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
        format.UNKNOWN if row.diverged is None else str(row.diverged),
        format.cut(format.one_line(row.response), _WIDTH),
        format.cut(format.one_line(row.why or row.note), _WIDTH),
        format.cut(format.one_line(row.text), _WIDTH),
    ]


def _footer(view: ParaphraseView) -> Iterator[str]:
    if view.surface is not None:
        spread = view.surface
        without = (
            f" (paraphrases only {view.paraphrases_range:.2f})"
            if view.paraphrases_range is not None
            else ""
        )
        yield (
            f"range {spread.range:.2f}{without}; variance {spread.variance:.3f}"
            f" (population {spread.population_variance:.3f})"
        )
    if view.model is None:
        return
    at = "every step" if view.broke is None else f"step {view.broke}"
    yield (
        f"message {view.message} paraphrased · model {view.model} · judge {view.judge}, {at} ·"
        f" {format.count(view.k, 'sample')} each · {spending_line(spending_of(view))}"
    )
