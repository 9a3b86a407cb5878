"""`arc judge`: a judge's scores of steps, its classes of whole runs, and which of two is better."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, get_args

import click
from rich.console import Console

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    estimate_line,
    estimate_option,
    examples,
    held_out_option,
    json_option,
    limits,
    live_options,
    open_judged,
    print_held_out,
    print_view,
    print_views,
    refuse_missing,
    refuse_unanswered,
    show_estimate,
)
from arc_tui.experiments.models import HasSpending, spending_of
from arc_tui.experiments.progress import Counted, progress_line, with_bar
from arc_tui.experiments.request import views_of
from arc_tui.features.judge.classify import (
    ClassifyRequest,
    estimate_classify,
    run_classify,
    runs_to_classify,
)
from arc_tui.features.judge.pair import (
    PairRequest,
    estimate_pairs,
    pairs_named,
    run_pairs,
)
from arc_tui.features.judge.printed import (
    MOST_WHOLE,
    print_classified,
    print_pairs,
    print_scores,
    print_scores_of_many,
)
from arc_tui.features.judge.run import (
    ScoringRequest,
    estimate_scoring,
    run_scoring,
    runs_to_score,
)
from arc_tui.ui import format
from arc_tui.views.scores import ScoresView
from replay.budget import Limits
from replay.locked.estimate import Estimate
from replay.store.handle import Store
from replay.written import called
from taxonomy import goals
from taxonomy.judge.own_rubrics import read_and_keep
from taxonomy.judge.rubrics import Mode
from taxonomy.query.listing import held_out_note


@click.command(
    epilog=examples(
        "arc judge last --model demo",
        "arc judge last --model claude-haiku-5-5 --mode window --estimate",
        "arc judge class:loop --model claude-haiku-5-5 --mode run --schedule batch --estimate",
        "arc judge --classify --model claude-haiku-5-5 --estimate",
        "arc judge shop-many-wishes-v5-0 shop-many-wishes-v4-0 --pair --model demo",
    )
)
@click.argument("traces", type=RUN_NAME, nargs=-1, metavar="TRACE…")
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    help="Judge each step by its goal; each step in context, by five items; or the whole run."
    "  [default: step]",
)
@click.option("-k", "samples", type=click.IntRange(1, 100), default=1, help="Samples of each.")
@click.option(
    "--goals",
    "goals_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with the goals of tasks and their weights.",
)
@click.option(
    "--rubric",
    "rubric_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with a rubric of your own.",
)
@click.option("--classify", is_flag=True, help="Suggest a failure class for whole runs.")
@click.option("--tagged", is_flag=True, help="With --classify: the runs that people tagged.")
@click.option("--pair", is_flag=True, help="Compare runs two by two, each pair in both orders.")
@click.option(
    "--schedule",
    type=click.Choice(("fast", "batch")),
    default="fast",
    help="In parallel, or as a batch: half the price, within a day.",
)
@click.option("--no-cache", is_flag=True, help="Ignore cached responses.")
@live_options
@estimate_option
@held_out_option
@json_option
@db_option
def score(
    traces: tuple[str, ...],
    mode: Mode | None,
    samples: int,
    goals_file: Path | None,
    rubric_file: Path | None,
    classify: bool,
    tagged: bool,
    pair: bool,
    schedule: str,
    no_cache: bool,
    only_estimate: bool,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Let a judge score the steps of runs; --model names it, and is better of another family.

    TRACE names a run; words that name none are a query as in `arc ls`: then all its runs are
    scored. With --classify the judge suggests a class, a step and quotes for each TRACE, or for the
    failed runs of a query; without either, for all failed runs that have no class. With --pair it
    says which of two runs is better. --model demo asks no model: it shows the rules' own scores.
    The judge never sees what is recorded of how a run was judged. Exit code 0: something was
    scored, suggested or decided; 1: nothing; 2: answers are not stored.
    """
    given = _Options(
        model=options["model"],
        live=options["live"],
        limits=limits(options),
        no_cache=no_cache,
        batch=schedule == "batch",
        only_estimate=only_estimate,
        as_json=as_json,
    )
    step_options = {
        "--mode": mode is not None, "-k": samples > 1, "--goals": goals_file is not None,
        "--rubric": rubric_file is not None,
    }  # fmt: skip
    _one_question(classify, tagged, pair, [name for name, there in step_options.items() if there])
    if classify:
        with open_judged(db) as store:
            return _classify(store, traces, given, tagged=tagged, with_held_out=with_held_out)
    if not traces:
        raise click.UsageError("name a run, or --classify. Try: arc judge last --model demo")
    with open_judged(db) as store:
        if pair:
            return _pair(store, traces, given)
        print_held_out(held_out_note(store, shown=with_held_out))
        rubric = read_and_keep(store, rubric_file) if rubric_file else None
        if rubric is not None and mode not in (None, rubric.mode):
            raise click.UsageError(f"--mode {mode}: the rubric is of mode {rubric.mode}")
        request = ScoringRequest(
            traces=runs_to_score(store, traces, with_held_out=with_held_out),
            model=given.model,
            mode=rubric.mode if rubric else mode or "step",
            samples=samples,
            rubric=rubric,
            goals=goals.read(goals_file) if goals_file else None,
            goals_name=called(goals_file.name) if goals_file else "",
            no_cache=no_cache,
            batch=given.batch,
            live=given.live,
            limits=given.limits,
        )
        return _score(store, request, given)


class _Options(NamedTuple):
    """What all questions have in common."""

    model: str | None
    live: bool
    limits: Limits
    no_cache: bool
    batch: bool
    only_estimate: bool
    as_json: bool


def _one_question(classify: bool, tagged: bool, pair: bool, of_steps: Sequence[str]) -> None:
    """Refuses options of two questions."""
    if classify and pair:
        raise click.UsageError("--classify and --pair cannot be combined")
    if tagged and not classify:
        raise click.UsageError("--tagged goes with --classify")
    if (classify or pair) and of_steps:
        question = "--classify" if classify else "--pair"
        raise click.UsageError(f"{of_steps[0]} is about steps: it does not go with {question}")


def _is_only_estimate(given: _Options, estimate: Callable[[], Estimate]) -> bool:
    """Say what would be asked where that is wanted, or before a live call; is that all?"""
    return show_estimate(
        estimate,
        estimate_line,
        only=given.only_estimate,
        live=given.live,
        as_json=given.as_json,
        batch=given.batch,
    )


# --- scores of steps


def _score(store: Store, request: ScoringRequest, given: _Options) -> int:
    if _is_only_estimate(given, lambda: estimate_scoring(store, request)):
        return 0
    views: dict[str, ScoresView] = {}
    found = views_of(run_scoring, store, request)
    try:
        for view in with_bar(found, _progress("Judging step", given), console(err=True)):
            views[view.trace] = view
    finally:  # what was scored is kept, and worth its place on the screen
        _print_scores(views.values(), given)
    refuse_missing(sum(view.missing for view in views.values()), given.model)
    refuse_unanswered(
        wanted=any(view.refused for view in views.values()),
        answers=sum(view.calls + view.cached for view in views.values()),
    )
    return 0 if any(view.scored for view in views.values()) else 1


def _print_scores(views: Collection[ScoresView], given: _Options) -> None:
    """A few runs step by step, of many a line each."""
    if len(views) > MOST_WHOLE and not given.as_json:
        print_scores_of_many(console(), list(views))
    else:
        print_views(views, given.as_json, print_scores)


class _Judging(Counted, HasSpending, Protocol):
    """A view with what is in and what was spent."""


J = TypeVar("J", bound=_Judging)


def _last_view(
    views: Iterator[J], doing: str, given: _Options, print_text: Callable[[Console, J], object]
) -> J:
    """The last of the views, printed also where it ends early: what was said is kept."""
    last: list[J] = []
    try:
        for view in with_bar(views, _progress(doing, given), console(err=True)):
            last = [view]
    finally:
        for view in last:
            print_view(view, given.as_json, print_text)
    return last[0]


def _progress(doing: str, given: _Options) -> Callable[[_Judging], str]:
    def line(view: _Judging) -> str:
        return progress_line(doing, view.done, view.total, spending_of(view), given.limits)

    return line


# --- classes of runs


def _classify(
    store: Store, words: tuple[str, ...], given: _Options, *, tagged: bool, with_held_out: bool
) -> int:
    print_held_out(held_out_note(store, shown=with_held_out))
    traces = runs_to_classify(store, words, tagged=tagged, with_held_out=with_held_out)
    if not traces:
        _say_none(words, tagged=tagged)
        return 1
    request = ClassifyRequest(
        traces=traces,
        model=given.model,
        no_cache=given.no_cache,
        batch=given.batch,
        live=given.live,
        limits=given.limits,
    )
    if _is_only_estimate(given, lambda: estimate_classify(store, request)):
        return 0
    found = views_of(run_classify, store, request)
    view = _last_view(found, "Classifying run", given, print_classified)
    missing = view.count("missing")
    if missing and not given.live:
        click.echo(estimate_line(estimate_classify(store, request)), err=True)
    refuse_missing(missing, given.model)
    refuse_unanswered(wanted=view.count("refused") > 0, answers=view.calls + view.cached)
    return 0 if view.count("suggested") else 1


def _say_none(words: Sequence[str], *, tagged: bool) -> None:
    asked = f" match '{format.one_line(' '.join(words))}'" if words else ""
    if tagged:
        text = f"No tagged runs{asked}. Try: arc tag add TRACE STEP CLASS"
    elif words:
        text = f"No failed runs without a person's tag{asked}."
    else:
        text = "No failed runs without a class."
    click.echo(text, err=True)


# --- pairs of runs


def _pair(store: Store, names: tuple[str, ...], given: _Options) -> int:
    request = PairRequest(
        pairs=pairs_named(store, names),
        model=given.model,
        no_cache=given.no_cache,
        batch=given.batch,
        live=given.live,
        limits=given.limits,
    )
    if _is_only_estimate(given, lambda: estimate_pairs(store, request)):
        return 0
    found = views_of(run_pairs, store, request)
    view = _last_view(found, "Judging pair", given, print_pairs)
    refuse_missing(view.missing, given.model)
    refuse_unanswered(
        wanted=view.decided < view.done, answers=view.calls + view.cached + view.decided
    )
    return 0 if any(row.verdict in ("A", "B", "equal") for row in view.rows) else 1
