"""`arc suggest`: edits for a run or a class that failed, each tested before it is called a fix."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from msgspec import structs
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
    open_store,
    print_json,
    print_line,
    refuse_unanswered,
    refuse_unfinished,
    show_estimate,
    with_database,
)
from arc_tui.experiments.progress import progress_line, with_bar
from arc_tui.experiments.request import views_of
from arc_tui.features.edit_test.command import test_options
from arc_tui.features.edit_test.suggest.run import (
    CostedPlan,
    estimate_cost,
    run_suggestions,
    save_edit,
    write_bundles,
)
from arc_tui.features.edit_test.suggest.view import (
    MOST_EDITS,
    PROPOSALS,
    VERDICTS,
    SuggestedEdit,
    SuggestRequest,
    SuggestView,
    basis,
    edit_lines,
    headline_of,
    notices,
    spent_line,
    split_sentence,
)
from arc_tui.features.edit_test.text import moment
from arc_tui.ui import format
from replay.errors import ArcError, NotFound
from replay.locked.row import Schedule
from replay.store.handle import Store
from replay.store.rows import trace_row
from taxonomy.classes import FailureClass


@click.command(
    epilog=examples(
        "arc suggest shop-many-wishes-v5-0",
        "arc suggest loop --model demo --estimate",
    )
)
@click.argument("what", type=RUN_NAME, metavar="RUN|CLASS|QUERY")
@click.option(
    "--edits",
    "most",
    type=click.IntRange(1, 10),
    default=MOST_EDITS,
    show_default=True,
    help="Rule-made edits to compare, at most.",
)
@click.option("--reflect", metavar="MODEL", help="A model that proposes other edits (gepa).")
@click.option(
    "--proposals",
    type=click.IntRange(1, 20),
    default=PROPOSALS,
    show_default=True,
    help="Edits that --reflect proposes, at most.",
)
@test_options("Healthy steps to test on each half, at most.")
@click.option("--save", "name", metavar="NAME", help="Keep the best edit under this name.")
@click.option(
    "--bundles",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="With --save: write a bundle of each run tested, for `arc bundle verify` elsewhere.",
)
@held_out_option
@live_options
@estimate_option
@json_option
@db_option
def suggest(
    what: str,
    most: int,
    reflect: str | None,
    proposals: int,
    samples: int,
    controls: int,
    schedule: Schedule,
    resample: bool,
    name: str | None,
    bundles: Path | None,
    with_held_out: bool,
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Suggest edits that may fix a failed run, or a class of failures, and test them.

    The failing runs are split by task: edits are compared on one half, the best is looked at once
    on the other. Nothing of yours is written; --save keeps an edit in the database. Exit code 0:
    an edit tests as a fix; 1: none does; 2: not tested, unfinished, or no run to suggest for.
    """
    if bundles is not None and name is None:
        raise click.UsageError(
            "--bundles holds what a saved edit rests on."
            " Try: arc suggest RUN --save NAME --bundles FOLDER"
        )
    with open_store(db) as store:
        query, traces = _resolve(store, what)
        request = SuggestRequest(
            query=query,
            traces=traces,
            most=most,
            reflect=reflect,
            proposals=proposals,
            samples=samples,
            controls=controls,
            schedule=schedule,
            resample=resample,
            with_held_out=with_held_out,
            model=options["model"],
            live=options["live"],
            limits=limits(options),
        )
        costed: list[CostedPlan] = []

        def look() -> CostedPlan:
            costed[:] = costed or [estimate_cost(store, request)]
            return costed[0]

        if show_estimate(
            lambda: look().estimate,
            estimate_line,
            only=only_estimate,
            live=request.live and look().before is None,
            as_json=as_json,
        ):
            return 0
        before = None if resample else look().before
        view = before or _run(store, request, as_json=as_json)
        if name is not None:
            view = _save(store, view, name)
        _print(view, as_json=as_json)
        if bundles is not None:
            written = [*write_bundles(store, request, view, bundles)]
            said = f"wrote {format.count(len(written), 'bundle')} to {bundles}"
            shown = f". Try: arc bundle verify {written[0]}" if written else ""
            click.echo(said + shown, err=True)
    return _exit_code(view)


def _resolve(store: Store, what: str) -> tuple[str, tuple[str, ...] | None]:
    """The query, and the run where one is named. A class may be named as it is written."""
    if what.lower() in {each.value for each in FailureClass}:
        return f'class:"{what.lower()}"', None
    if ":" in what:
        return what, None
    try:
        row = trace_row(store, what)
    except NotFound as none:
        classes = get_close_matches(what, [each.value for each in FailureClass], 1)
        if classes:
            raise NotFound("run or class", what, classes) from none
        raise
    return row.source_id, (row.trace,)


def _run(store: Store, request: SuggestRequest, *, as_json: bool) -> SuggestView:
    """Ask; what is known when it goes no further is printed before it is said why."""
    views: list[SuggestView] = []
    try:
        work = views_of(run_suggestions, store, request)
        for view in with_bar(work, lambda each: _line(each, request), console(err=True)):
            views[:] = [view]
    except ArcError:
        for view in views:
            _print(view, as_json=as_json)
        raise
    return views[0]


def _line(view: SuggestView, request: SuggestRequest) -> str:
    doing = view.doing or "Writing edits, step"
    return progress_line(doing, view.done, view.total, view.spent.spending, request.limits)


def _save(store: Store, view: SuggestView, name: str) -> SuggestView:
    """Keep the best edit under a name, where there is one."""
    best = view.best
    if best is None:
        raise ArcError("no edit to save", "The output above gives the reasons")
    saved = save_edit(store, structs.replace(best, name=name), view.query)
    return structs.replace(view, saved=saved)


def _exit_code(view: SuggestView) -> int:
    if view.fix is not None:
        return 0
    refuse_unfinished(view.ended)
    asked = view.spent.calls + view.spent.cached
    refuse_unanswered(wanted=view.tested, answers=asked)
    return 1 if view.tested or not view.edits else 2


def _print(view: SuggestView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    out = console()
    print_line(out, headline_of(view), "bold")
    for sentence in filter(None, (split_sentence(view), _when(view))):
        print_line(out, sentence)
    for notice in notices(view):
        print_line(out, notice, "yellow")
    for edit in view.edits:
        out.print()
        _print_edit(out, edit, view)
    if view.edits:
        out.print()
    for line in (*basis(view), *_next(view), spent_line(view) if view.tested else ""):
        if line:
            print_line(out, line, "dim")


def _when(view: SuggestView) -> str:
    if view.ran_ns is None or view.spent.calls:
        return ""
    return f"Tested {moment(view.ran_ns)}; --no-cache asks again."


def _print_edit(out: Console, edit: SuggestedEdit, view: SuggestView) -> None:
    """An edit: its verdict and name, why, what came of it, and the diff."""
    print_line(out, f"{VERDICTS[edit.verdict].strip()} · {format.one_line(edit.name)}", "bold")
    runs = f" · {format.count(edit.runs, 'run')}" if edit.runs > 1 else ""
    targets = ", ".join(map(format.one_line, edit.targets))
    print_line(out, f"{targets} · {edit.by} · {format.one_line(edit.because)}{runs}", "dim")
    for line in edit_lines(edit, held_back=view.held_back):
        print_line(out, line)
    for line in edit.diff:
        style = {"+": "green", "-": "red"}.get(line[:1], "")
        print_line(out, f"  {line}", "dim" if line.startswith(("+++", "---", "@@")) else style)


def _next(view: SuggestView) -> tuple[str, ...]:
    """What to do with the best edit."""
    best = view.best
    if best is None:
        return ()
    name = view.saved
    if name is None:
        return ("Try: --save NAME, which keeps the best edit for arc replay and arc try",)
    words = shlex.join(with_database(("arc", "replay", best.trace[:8], "--edit", name)))
    return (
        f"saved: {format.one_line(name)}; --bundles keeps what its test rests on",
        f"Try: {words}",
    )
