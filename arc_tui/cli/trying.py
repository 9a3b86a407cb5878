"""`arc try`: an edit tested on every run of a class, and on steps that went well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from arc_tui import format
from arc_tui.cli.common import (
    console,
    db_option,
    held_out_option,
    json_option,
    open_store,
    print_json,
)
from arc_tui.cli.live import foreseen as words
from arc_tui.cli.live import limits, live_options, refuse_unanswered, refuse_unfinished, said_before
from arc_tui.cli.try_table import print_try
from arc_tui.jobs.tryout.estimate import foreseen
from arc_tui.jobs.tryout.trying import trying
from arc_tui.jobs.tryout.wish import CONTROLS, SAMPLES, Wanted, edit_named
from arc_tui.views.trying.view import TryView
from replay.cluster import Clustered
from replay.compare.rules import rules_from
from replay.edit import Edit
from replay.edit.together import together
from replay.edit_file import from_files
from replay.errors import ArcError
from replay.locked.sampling import Schedule
from replay.store import Store

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(name="try")
@click.argument("edit", required=False)
@click.option("--system", type=_FILE, help="A file with the system prompt to try.")
@click.option(
    "--on",
    "query",
    required=True,
    metavar="QUERY",
    help="The runs: a query as in `arc ls`, such as class:loop.",
)
@click.option(
    "-k",
    "samples",
    type=click.IntRange(1, 100),
    default=SAMPLES,
    show_default=True,
    help="Samples of each request, of each arm.",
)
@click.option(
    "--controls",
    type=click.IntRange(min=0),
    default=CONTROLS,
    show_default=True,
    help="Healthy steps to ask at beside the runs, at most.",
)
@click.option(
    "--schedule",
    type=click.Choice(get_args(Schedule)),
    default="cheap",
    help="In turn for the provider's cache, all at once, or as a batch.",
)
@click.option("--resample", is_flag=True, help="Ask afresh; what is kept stays.")
@click.option(
    "--compare",
    "rules",
    multiple=True,
    metavar="PATH=RULE",
    help="How an argument is compared: `refund.reason=ignore`; repeatable.",
)
@click.option("--rows", is_flag=True, help="Every healthy step, not only those that changed.")
@held_out_option
@live_options
@click.option("--estimate", "only_estimate", is_flag=True, help="Say what it would ask; ask none.")
@json_option
@db_option
def try_(
    edit: str | None,
    system: Path | None,
    query: str,
    samples: int,
    controls: int,
    schedule: Schedule,
    resample: bool,
    rules: tuple[str, ...],
    rows: bool,
    with_held_out: bool,
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Test an edit on every run of a class: at the step where each broke, and at healthy steps.

    EDIT is a file with a system prompt, a TOML file with changes, or a kept edit by its name. Runs
    no tool. Exit code 0: something was fixed, beyond chance; 1: not; 2: answers are not stored,
    or it can be tried on no run.
    """
    with open_store(db) as store:
        wanted = Wanted(
            edit=_edit(store, edit, system),
            query=query,
            samples=samples,
            controls=controls,
            schedule=schedule,
            resample=resample,
            model=options["model"],
            live=options["live"],
            limits=limits(options),
            rules=rules_from(rules),
            with_held_out=with_held_out,
        )
        if said_before(
            lambda: foreseen(store, wanted).estimate,
            words,
            only=only_estimate,
            live=wanted.live,
            as_json=as_json,
        ):
            return 0
        views: list[TryView] = []
        try:
            _drain(trying(store, wanted), views)
        except ArcError:  # what came of it until then is worth its place on the screen
            _show(views, rows=rows, as_json=as_json)
            raise
    _show(views, rows=rows, as_json=as_json)
    (view,) = views
    refuse_unfinished(view.ended)
    refuse_unanswered(wanted=view.done > 0, answers=view.spent.asked + view.spent.kept)
    return 0 if view.fixes else 1


def _edit(store: Store, word: str | None, system: Path | None) -> Edit:
    parts = [edit_named(store, word) if word is not None else None, from_files(system, [])]
    edit = together([part for part in parts if part is not None])
    if edit is None:
        raise click.UsageError("what is to be tried? EDIT or --system FILE")
    return edit


def _drain(work: Iterator[TryView], views: list[TryView]) -> None:
    """Run to the end with a progress line on stderr where that is a terminal; keeps the last
    view."""
    out = console(err=True)
    columns = (
        TextColumn("asking"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
    )
    with Bar(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None, said="")
        for view in work:
            views[:] = [view]
            usd = format.usd(view.spent.usd, complete=view.spent.complete)
            said = f"fixed {_counted(view.fixed)}, broke {_counted(view.broke)}"
            said = f"{said} · {view.spent.asked} asked, {usd}"
            bar.update(task, completed=view.done, total=view.total, said=said)


def _counted(share: Clustered) -> str:
    return f"{share.hits}/{share.rate.n}"


def _show(views: list[TryView], *, rows: bool, as_json: bool) -> None:
    """The last view; nothing where there is none, or, for a person, nothing in it yet."""
    for view in views:
        if as_json:
            print_json(view)
        elif view.done or view.ended:
            print_try(console(), view, rows=rows)
